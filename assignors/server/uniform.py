"""`uniform` of KIP-848: balanced, and as sticky as balance allows.

Racks are ignored (KAFKA-16694).
"""

from typing import ClassVar

import numpy as np

from quorate.assignors.group import GroupSpec
from quorate.assignors.server.assignor import KafkaServerAssignor
from quorate.assignors.server.heterogeneous import assign_heterogeneous
from quorate.assignors.server.homogeneous import assign_homogeneous
from quorate.assignors.subscription_type import HOMOGENEOUS
from quorate.assignors.target import TargetAssignment, target_of_changed
from quorate.codecs.releases import KafkaVersion

OLDEST = KafkaVersion(4, 0, 0)
"""The first release whose algorithm is implemented."""


class UniformAssignor(KafkaServerAssignor):
    """Kafka's `org.apache.kafka.coordinator.group.assignor.UniformAssignor`, with its results.

    `version` must be 4.0.0 or later. Before, different subscriptions were assigned by another
    algorithm (KAFKA-17710), which is not implemented.
    """

    name: ClassVar[str] = "uniform"

    def target(self, group: GroupSpec) -> TargetAssignment:
        """Return the target assignment; see `KafkaServerAssignor.target`."""
        if self.version is not self._checked:
            self._require_version(OLDEST)
        if not group.member_ids:
            return target_of_changed(group, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
        if (self.subscription_type or group.subscription_type) is HOMOGENEOUS:
            return assign_homogeneous(group, self.jdk, stable=self._keeps_extra)
        return assign_heterogeneous(group, self.jdk)
