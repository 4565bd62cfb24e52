"""`uniform` of KIP-848: balanced, and as sticky as balance allows.

Racks play no part (they were taken out in KAFKA-16694).
"""

from typing import ClassVar

import numpy as np

from quorate.assignors.group import GroupSpec
from quorate.assignors.server.assignor import ServerAssignor, SubscriptionType, TargetAssignment
from quorate.assignors.server.heterogeneous import assign_heterogeneous
from quorate.assignors.server.homogeneous import assign_homogeneous
from quorate.assignors.server.target import target_of_changed
from quorate.codecs.releases import KafkaVersion

__all__ = ["UniformAssignor"]


class UniformAssignor(ServerAssignor):
    """Kafka's `org.apache.kafka.coordinator.group.assignor.UniformAssignor`, with its answers in its order.

    `version` from 4.0.0 on: before, different subscriptions were assigned in another way
    (KAFKA-17710), which is not known here.
    """

    name: ClassVar[str] = "uniform"

    def target(self, group: GroupSpec) -> TargetAssignment:
        """See `ServerAssignor.target`."""
        self._need_at_least(KafkaVersion(4, 0, 0))
        if not len(group):
            return target_of_changed(group, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
        if self._type_of(group) is SubscriptionType.HOMOGENEOUS:
            return assign_homogeneous(group, self.version, self.jdk)
        return assign_heterogeneous(group, self.jdk)
