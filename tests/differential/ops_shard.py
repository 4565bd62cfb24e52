"""The ops on the shard, with one `ShardSide` per program."""

from tests.differential.ops import OPS, Json, op
from tests.differential.shard_side import ShardSide

__all__ = ["OPS"]

_SIDE = ShardSide()


def _run(request: Json) -> Json:
    return _SIDE.run(request)


for _name in _SIDE.ops:
    op(_name)(_run)
