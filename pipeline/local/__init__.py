"""The jobs of `quorate.pipeline` in this process, on Arrow tables (`pip install quorate[arrow]`).

For logs of up to about 2 GB: results have the same columns and rows as with Spark, without its
start and its Java. `read` returns the rows of logs, and the jobs return Arrow tables.
"""

import json
from collections.abc import Mapping
from os import PathLike, fspath

from quorate.pipeline.local.histories import rebalances, storms, upgrade_audit
from quorate.pipeline.local.lag import lag
from quorate.pipeline.local.locality import LocalLocality, locality
from quorate.pipeline.local.log import LocalRows
from quorate.pipeline.local.state import LocalGroupState, group_state
from quorate.pipeline.schema import OptionError

__all__ = [
    "LocalGroupState",
    "LocalLocality",
    "LocalRows",
    "group_state",
    "lag",
    "locality",
    "read",
    "rebalances",
    "storms",
    "upgrade_audit",
]


def read(*paths: str | PathLike[str], options: Mapping[str, str] | None = None) -> LocalRows:
    """Return the rows of logs for the jobs, as `spark.read.format("consumer-offsets")` does.

    `paths`: segments, folders of partitions, or log directories. `options`: those of the source,
    such as `{"kafka.bootstrap.servers": "broker:9092"}` instead of paths. Raises `OptionError`.
    """
    for path in paths:
        if not isinstance(path, str | PathLike):
            raise OptionError(f"read({path!r}): a path is a text or a Path; several paths are several arguments")
        if not fspath(path):
            raise OptionError(
                "the path is empty; give a segment file, a partition's folder or a broker's log directory"
            )
    given = {} if not paths else {"paths": json.dumps([fspath(path) for path in paths])}
    return LocalRows(given | dict(options or {}))
