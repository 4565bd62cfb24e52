"""The assignors of small groups in C, if the optional accelerator is in use.

They assign groups with one subscription, on the client side without racks. For all others they
return `None`, and Python assigns, as it does without the accelerator.
"""

from typing import TYPE_CHECKING

from quorate.assignors.model import Member
from quorate.assignors.topology import TopicPartition
from quorate.codecs.extension import extension

if TYPE_CHECKING:
    from quorate.codecs._native import SmallGroups

_native = extension()
_small_groups = None if _native is None else _native.SmallGroups(Member, TopicPartition)


def small_groups_in_c() -> "SmallGroups | None":
    """Return the assignors in C."""
    return _small_groups
