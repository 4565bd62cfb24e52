"""The process from which Spark forks workers (`spark.python.daemon.module`), with their imports.

Tests start a worker for each attempt of a task that fails.
"""

import pandas as pd  # noqa: F401 - imported for the workers
import pyarrow as pa  # noqa: F401
from pyspark.daemon import manager

import quorate.pipeline  # noqa: F401

if __name__ == "__main__":
    manager()
