"""The base class of Kafka's server-side assignors (KIP-848, KIP-932).

**Order of members.** The broker puts members into a HashMap before it assigns. So a `GroupSpec`
must have them in the coordinator's iteration order, which is that of a TimelineHashMap:
`java_order.timeline_order` of the hashes of their ids, in insertion order.

**Owned partitions** are the previous target assignment, in the order of its record
(`Member.owned`). Partition -1 stands for a topic that the record lists without partitions; only
`simple` writes such records.
"""

from abc import abstractmethod

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec, SubscriptionType
from quorate.assignors.model import Assignment, AssignorError
from quorate.assignors.server.homogeneous_few import STABLE_SINCE
from quorate.assignors.target import Record, TargetAssignment
from quorate.codecs.releases import KafkaVersion

__all__ = ["KafkaServerAssignor", "Record", "TargetAssignment"]


class KafkaServerAssignor(Assignor):
    """Base class of Kafka's server-side assignors.

    - `version`: the Kafka release to follow.
    - `jdk`: the broker's Java version, which matters in rare cases: since 19, copies of a HashSet
      have another number of buckets.
    - `subscription_type`: as determined by the coordinator; by default derived from the group.
    """

    def __init__(
        self,
        *,
        version: KafkaVersion = KafkaVersion.NEWEST,
        jdk: int = 17,
        subscription_type: SubscriptionType | None = None,
    ) -> None:
        self.version = version
        self.jdk = jdk
        self.subscription_type = subscription_type
        # Versions are compared once, as that takes a microsecond.
        self._checked: KafkaVersion | None = None
        self._keeps_extra = version >= STABLE_SINCE

    def assign_group(self, group: GroupSpec) -> Assignment:
        """Assign a prepared group; see `Assignor.assign`. Raises `AssignorError`."""
        return self.target(group).assignment

    @abstractmethod
    def target(self, group: GroupSpec) -> TargetAssignment:
        """Return the target assignment, with what the coordinator needs to write its records.

        Raises `AssignorError`, for example if a subscribed topic has no id.
        """

    def _type_of(self, group: GroupSpec) -> SubscriptionType:
        return self.subscription_type or group.subscription_type

    def _require_version(self, *needed: KafkaVersion) -> None:
        """Raise `AssignorError` for a release that is older than all of `needed`."""
        if self.version is self._checked:
            return
        oldest = min(needed)
        if self.version < oldest:
            raise AssignorError(
                f"{self.name} supports Kafka {oldest} to {KafkaVersion.NEWEST}, not {self.version}; "
                "leave `version` out, or give a later one"
            )
        self._checked = self.version
