"""`SharedCluster`: what brokers and their APIs share: metadata, controller, logs and coordinators.

Everything runs in one thread, in the loop of the brokers. So nothing here needs locks, and all
brokers see a change at once.
"""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from quorate.cluster.authorizer import Authorizer
from quorate.cluster.broker_configs import ALL, BrokerConfigs
from quorate.cluster.clock import Clock, RealClock
from quorate.cluster.controller.brokers import BrokerControl
from quorate.cluster.controller.controller import Controller
from quorate.cluster.controller.partitions import PartitionControl
from quorate.cluster.controller.state import ClusterState, Delta
from quorate.cluster.controller.topics import TopicControl
from quorate.cluster.group_configs import GroupConfigs
from quorate.cluster.groups import GroupCoordinators
from quorate.cluster.large_frame import FrameMemory
from quorate.cluster.log_manager import LogManager
from quorate.cluster.meter import Meter
from quorate.cluster.scram import ScramCredentials
from quorate.cluster.security import Security
from quorate.cluster.services import Reports, Services
from quorate.cluster.share.configs import ShareGroupConfigs
from quorate.cluster.share.dead_letters import DeadLetterQueues
from quorate.cluster.share_state import ShareCoordinators
from quorate.cluster.storage.data import DataDirectory
from quorate.cluster.topics import TopicState
from quorate.cluster.transactions import TransactionCoordinators
from quorate.cluster.turns import Turns
from quorate.codecs import Uuid
from quorate.coordinator.image import MetadataImage


class SharedCluster:
    """A cluster without brokers.

    `state`: the metadata; `meter`: counts requests, if set. Parameters as for `ClusterCore`.
    """

    def __init__(
        self,
        properties: Mapping[str, Any] | None = None,
        *,
        clock: Clock | None = None,
        security: Security | None = None,
        seed: int | None = None,
        on_note: Callable[[str], object] | None = None,
    ) -> None:
        self.broker_configs = BrokerConfigs.of(properties or {})
        self.clock: Clock = clock or RealClock()
        self.state = ClusterState()
        self.reports = Reports(on_note)
        self.note, self.failed = self.reports.note, self.reports.failed
        self.turns = Turns(partial(self.failed, "a large request"))
        self.services = Services(self.broker_configs, self.state, self.clock, self.turns, Random(seed), self.reports)
        self.new_uuid = self.services.new_uuid
        self.cluster_id = str(self.new_uuid())
        self.meter: Meter | None = None
        self.frame_memory = FrameMemory()

        self.logs = LogManager(self.services)
        self.state.new_log = self.logs.new_log
        self.controller = Controller(self.services, self.logs, self._publish)
        self.topic_control = TopicControl(self.services, self.controller, self.logs)
        self.partition_control = PartitionControl(self.controller, self.logs, self.topic_control)
        self.broker_control = BrokerControl(self.controller, self.logs)
        self.features_epoch = 0  # grows with each change: clients ignore older ones
        self.client_metrics_version = 0  # grows with each change of subscriptions

        self.authorizer = Authorizer.of(self.broker_configs.properties, self.state.acls)
        self.security = security or Security()
        self.credentials = ScramCredentials(self.security.users, self.security.mechanisms, self.state.credentials)
        self.group_configs = GroupConfigs(self.services)
        self.share_configs = ShareGroupConfigs(self.services, self.group_configs)
        self.dead_letters = DeadLetterQueues(self.services, self.topic_control, self.group_configs)
        self.share_state = ShareCoordinators(self.services, self.topic_control)
        self.groups = GroupCoordinators(self.services, self.authorizer, self.share_state, self.group_configs)
        self.transactions = TransactionCoordinators(self.services, self.controller, self.groups)

    # ---- state

    @property
    def data(self) -> DataDirectory | None:
        """The data directory; `None` if data is in memory."""
        return self.logs.data

    @property
    def topics(self) -> dict[str, TopicState]:
        """The topics by name."""
        return self.state.topics

    @property
    def topics_by_id(self) -> dict[Uuid, TopicState]:
        """The topics by id."""
        return self.state.topics_by_id

    @property
    def image(self) -> MetadataImage:
        """The metadata image of topics and brokers, for coordinators."""
        return self.state.image

    @property
    def features(self) -> dict[str, int]:
        """The finalized feature levels."""
        return self.state.features

    @property
    def alive(self) -> dict[int, str | None]:
        """Unfenced brokers → racks."""
        return self.state.alive

    @property
    def controller_id(self) -> int:
        """The broker that clients see as controller: the unfenced one with the lowest id, or -1."""
        return min(self.alive, default=-1)

    # ---- metadata changes

    def _publish(self, delta: Delta) -> None:
        """Apply a metadata change to coordinators, logs and configs, in the same step."""
        if delta.features:
            self.features_epoch += 1
        if delta.client_metrics:
            self.client_metrics_version += 1
        for group in delta.group_configs:
            self.group_configs.changed(group)
            self.groups.config_changed(group)
        for broker in delta.broker_configs:
            values = self.state.broker_configs.get(broker, {})
            self.broker_configs.change(int(broker) if broker else ALL, values)
        if delta.group_configs or delta.broker_configs:
            self.share_configs.changed()
        if delta.broker_configs:
            self.logs.broker_configs_changed()
            self.groups.broker_configs_changed()
        if delta.of_image:
            self.groups.runtime.image_changed(self.state.image)
            self.share_state.runtime.image_changed(self.state.image)
        if delta.led or delta.removed or delta.brokers:
            self.groups.runtime.leaders_changed()
            self.transactions.runtime.leaders_changed()
            self.share_state.runtime.leaders_changed()
