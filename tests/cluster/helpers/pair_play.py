"""Send random requests to the embedded cluster and to a real broker until responses differ."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from random import Random

from quorate.cluster import EmbeddedCluster
from quorate.codecs import Uuid
from quorate.codecs.api import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, ShareGroupHeartbeatRequest
from quorate.codecs.api.broker import (
    ApiVersionsRequest,
    DeleteTopicsRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    MetadataRequest,
)
from quorate.codecs.message import Message
from quorate.codecs.releases import features_of
from quorate.coordinator.share_state.key import SharePartitionKey
from quorate.integration import KafkaCluster
from quorate.integration.verify.tables import SETS, SETS_ONCE
from tests.broker.broker import NEWEST, VERSION, Broker
from tests.cluster.helpers.pair import LATE_S, Difference, Ids, Pair
from tests.cluster.helpers.pair_gaps import undeclared
from tests.cluster.helpers.pair_late import LateWrites
from tests.cluster.helpers.pair_requests import Requests
from tests.cluster.helpers.pair_themes import Theme
from tests.cluster.helpers.wire import Wire

log = logging.getLogger(__name__)

_STAYS_S = 5
"""How long to wait for equal metadata before declared differences are taken to remain."""
_LATE_MS = 150
"""Half of the rebalance timeout of the classic members: later requests may find them removed."""
_ATTEMPTS = 3
_OFFSETS_PARTITIONS = 3
SETTINGS: Mapping[str, object] = {
    "offsets.topic.num.partitions": _OFFSETS_PARTITIONS,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 2,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "num.partitions": 2,
    "auto.create.topics.enable": "true",
    "group.consumer.assignment.interval.ms": 0,
    "group.share.assignment.interval.ms": 0,
    "group.share.max.session.timeout.ms": 600_000,
    "group.share.session.timeout.ms": 600_000,  # a busy machine needs a minute for a seed
    "group.streams.assignment.interval.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.max.session.timeout.ms": 600_000,
    "group.streams.session.timeout.ms": 600_000,
    # Old segments may be deleted at any time: records with a timestamp of 5 ms are sent, too.
    "log.retention.check.interval.ms": 10**9,
    "log.initial.task.delay.ms": 10**9,
    # Expired transactions end at once here, and are also in the results of other seeds.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}
"""Of both."""

CHANGES = frozenset(
    {
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        "AlterConfigs",
        "IncrementalAlterConfigs",
        "DeleteRecords",
        "EndTxn",
        "InitProducerId",
        "Metadata",
        "AlterPartitionReassignments",
        "ElectLeaders",
        "AddPartitionsToTxn",
        "Produce",
        "StreamsGroupHeartbeat",
        "UpdateFeatures",
        "AlterUserScramCredentials",
        "AlterClientQuotas",
        "CreateAcls",
        "DeleteAcls",
    }
)
"""APIs whose changes a real broker applies with a delay."""


class Differs(AssertionError):
    """The responses of the brokers differ."""


class Duel:
    """The embedded cluster and a real broker.

    `requests`: how many were compared. `late`: whether requests of the last seed were delayed.
    `late_writes`: those of the real broker.
    """

    def __init__(
        self, ours: EmbeddedCluster, port: int, *, sets: frozenset[str] = SETS, user: str | None = None
    ) -> None:
        """`port`: the real broker's. `sets`: arrays without an order. `user`: for SASL."""
        self._user = user
        self._sets = sets
        self.ours = ours
        self.ports = (ours.core.brokers[1].port, port)
        self.ids = Ids()
        self.requests = 0
        self.late = False
        self.pair = Pair(*self.ports, ids=self.ids, sets=sets, user=user)
        self.late_writes = LateWrites(port, _OFFSETS_PARTITIONS, user)
        for key_type in (0, 1):  # creates the internal topics
            self._until_equal(FindCoordinatorRequest(coordinator_keys=("g",), key_type=key_type), 4)
        if features_of(ours.core.broker_configs.kafka_version).get("share.version"):
            share_key = SharePartitionKey("g", Uuid.ZERO, 0).coordinator_key
            self._until_equal(FindCoordinatorRequest(coordinator_keys=(share_key,), key_type=2), 6)
        self._until_equal(InitProducerIdRequest(transactional_id="first", transaction_timeout_ms=1000), 4)
        self.pair.settle()  # before a request contains the id of an internal topic, which then maps to the real one
        requested = ApiVersionsRequest(client_software_name="w", client_software_version="1")
        reported, real, _ = self.pair.request(requested, 4)
        theirs_by_key = {api_key.api_key: api_key for api_key in real.api_keys}
        self.versions = {
            api_key.api_key: range(max(api_key.min_version, _OLDEST.get(api_key.api_key, 0)), api_key.max_version + 1)
            for api_key in reported.api_keys
            if api_key.api_key in theirs_by_key
        }

    def _until_equal(self, request: Message, version: int) -> None:
        for _ in range(1000):
            found = self.pair.request(request, version)[2]
            if not found or all(one.path == "producer_epoch" for one in found):
                return
            time.sleep(0.2)
        raise Differs(f"the brokers do not get ready: {found[0]}")

    def play(self, seed: int, steps: int, theme: Theme | None = None) -> None:
        """Send random requests until two responses differ.

        Raises `Differs`, with the seed and the request. If a busy machine delayed requests so that
        timers of the brokers may have run in between, the seed is played again with new groups.
        """
        for attempt in range(_ATTEMPTS):
            prefix = f"s{seed}-" if not attempt else f"s{seed}-{attempt}-"
            self.late = False
            try:
                return self._play(seed, steps, prefix, theme)
            except Differs as found:
                if not self.late or attempt == _ATTEMPTS - 1:
                    raise
                log.warning("played again, as requests were delayed: %s", found)
        return None

    def _play(self, seed: int, steps: int, prefix: str, theme: Theme | None) -> None:
        random = Random(seed)
        pair = Pair(*self.ports, ids=self.ids, sets=self._sets)
        pair.patience_s = lambda found: LATE_S if undeclared(found) else 0  # a declared difference remains
        requests = Requests(random, self.ours.core, self.versions, prefix=prefix, theme=theme)
        try:
            began = time.monotonic()
            for step in range(steps):
                self.late |= time.monotonic() - began > _LATE_MS / 1000
                began = time.monotonic()
                request, version = requests.next()
                ours, _, found = pair.request(request, version, random.randrange(2))
                self.requests += 1
                self._check(found, seed, step, request, "")
                if isinstance(ours, Message):
                    requests.observe(request, ours)
                self._wait(request, ours)
                if requests.api.name in CHANGES:
                    self._check(pair.settle(_STAYS_S), seed, step, request, "afterwards: ")
        finally:
            pair.close()
            self.clean()
        if self.ours.core.failures:
            raise Differs(f"seed {seed}: {self.ours.core.failures[0]}")

    def _wait(self, request: Message, response: object) -> None:
        """Wait for what the real broker writes after its response."""
        if isinstance(request, ShareGroupHeartbeatRequest):
            self.late_writes.wait_for_share_states(request.group_id)
        elif isinstance(request, ConsumerGroupHeartbeatRequest):
            succeeded = isinstance(response, ConsumerGroupHeartbeatResponse) and not response.error_code
            if succeeded and request.member_epoch >= 0 and request.subscribed_topic_regex:
                self.late_writes.wait_for_regex(request.group_id, request.subscribed_topic_regex)

    def _check(self, found: list[Difference], seed: int, step: int, request: Message, when: str) -> None:
        left = undeclared(found)
        if left:
            reported = "\n".join(map(str, left[:5]))
            raise Differs(f"seed {seed}, step {step}: {when}{reported}\n{request}")

    def clean(self) -> None:
        """Delete topics on both sides, so that seeds are independent."""
        for port in self.ports:
            with Wire(port, user=self._user) as wire:
                found = wire.request(MetadataRequest(topics=None, allow_auto_topic_creation=False), 9).topics
                names = tuple(one.name for one in found if not one.name.startswith("__"))
                wire.request(DeleteTopicsRequest(topic_names=names, timeout_ms=5000), 5)
        self.pair.settle(_STAYS_S)


_OLDEST = {0: 3}
"""Produce reports versions that it rejects (KAFKA-18659)."""


@contextmanager
def duel(version: str = VERSION) -> Iterator[Duel]:
    """Yield both brokers, ready.

    `version`: the release of Kafka. The real broker runs in a container, unless tests/broker has
    that version (`VERSION`, the default, and `NEWEST`).
    """
    with ExitStack() as stack:
        ours = stack.enter_context(EmbeddedCluster(brokers=1, properties=SETTINGS, seed=1, version=version))
        is_local = version in (VERSION, NEWEST)
        if is_local:
            port = stack.enter_context(Broker(SETTINGS, version=version)).port
        else:
            real = stack.enter_context(KafkaCluster(racks=[None], version=version, properties=SETTINGS))
            port = int(real.bootstrap_servers.rpartition(":")[2])
        one = Duel(ours, port, sets=SETS if is_local else SETS | SETS_ONCE)
        stack.callback(one.pair.close)
        yield one
