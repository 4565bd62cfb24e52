"""Executors get the package with `--py-files`: pure Python, found in a ZIP file by processes that have only its dependencies."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

from tests.conftest import QUICK_JVM
from tests.pipeline.conftest import CAPTURES

ROOT = Path(__file__).resolve().parents[2]

JOB = """
import importlib.util, sys
from pyspark.sql import SparkSession
from quorate.pipeline import decode, register
from quorate.pipeline import source

assert ".zip" in source.__file__, source.__file__
spark = SparkSession.builder.getOrCreate()
register(spark)
rows = spark.read.format("consumer-offsets").option("types", "OffsetCommit").option("includeRaw", "true").load(sys.argv[1])
print("rows", rows.count(), decode(rows.select("key", "value"), types="OffsetCommit").where("type is not null").count())
"""


def zipped(path: Path) -> Path:
    """The package as `pip install --target` lays it down, put into a ZIP file by `zip -r`."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir(
            "quorate"
        )  # zipimport finds a package without __init__.py only by such an entry, which wheels do not have
        for package, folder in settings["package-dir"].items():
            for file in (ROOT / folder).rglob("*.py"):
                archive.write(file, Path(*package.split(".")) / file.relative_to(ROOT / folder))
    return path


def test_a_zip_of_the_package_is_enough_where_the_dependencies_are(tmp_path: Path) -> None:
    package = zipped(tmp_path / "quorate.zip")
    # Without `site`, Python does not see that quorate is installed here; the libraries are put on
    # the path.
    python = tmp_path / "python"
    libraries = sysconfig.get_path("purelib")
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{libraries}:$PYTHONPATH" exec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    job = tmp_path / "job.py"
    job.write_text(JOB)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    environment |= {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    submit = Path(libraries) / "pyspark" / "bin" / "spark-submit"
    settings = ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1", "--master", "local[1]"]
    settings += ["--driver-java-options", QUICK_JVM]
    command = [submit, *settings, "--py-files", package, job, CAPTURES / "classic-3.9"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert "rows 107 107" in done.stdout, done.stderr[-3000:]


def test_a_process_of_the_source_imports_no_jobs() -> None:
    """Spark plans and reads in processes of its own; each imports the source anew, which is part of what every query costs."""
    asked = "import sys, quorate.pipeline.source; print([one for one in sys.modules if 'jobs' in one or one.startswith(('quorate.coordinator', 'quorate.assignors'))])"
    done = subprocess.run([sys.executable, "-P", "-c", asked], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "[]\n"
