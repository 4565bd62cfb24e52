"""The cluster under test: its brokers, which APIs they have, and which of them to ask.

It knows no checks. Coordinators and leaders are looked up when they are needed.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from quorate.cluster.errors import ClusterError
from quorate.codecs import QuorateError, Uuid
from quorate.codecs.api import DeleteGroupsRequest, ListGroupsRequest, api_of, decode_api
from quorate.codecs.api.broker import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    MetadataRequest,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.live_connect import LiveError, check_connection
from quorate.codecs.message import Message
from quorate.integration.verify.messages import message_of
from quorate.integration.verify.wire import RawConnection

Address = tuple[str, int]

_PATIENCE_S = 30
_TO_LEADERS = frozenset(
    {
        "DeleteRecords",
        "DescribeProducers",
        "Fetch",
        "ListOffsets",
        "OffsetForLeaderEpoch",
        "Produce",
        "ShareAcknowledge",
        "ShareFetch",
    }
)
_TO_CONTROLLER = frozenset(
    {"AlterConfigs", "AlterPartitionReassignments", "CreatePartitions", "CreateTopics", "DeleteTopics", "ElectLeaders"}
)
_GROUP, _TRANSACTION = 0, 1
_TOPIC_CONFIG = 1


class NotSupportedError(QuorateError):
    """The broker does not have an API or a version that the check needs."""


class VerifyTarget:
    """A cluster at `bootstrap_servers`.

    `config`: kafka-python's configs of TLS and SASL. `prefix`: of everything that is created.
    `connect_timeout_ms`: for connecting, and for the first response. Raises `ClusterError` if an
    address or a config is invalid, or if no broker can be reached.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        config: Mapping[str, Any] | None = None,
        *,
        prefix: str,
        connect_timeout_ms: int = 10_000,
    ) -> None:
        self._config = config or {}
        self._prefix = prefix
        self._connect_timeout_s = connect_timeout_ms / 1000
        try:
            check_connection(bootstrap_servers, self._config)
        except LiveError as error:
            raise ClusterError(str(error)) from None
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._leaders: dict[tuple[str, int], Address] = {}
        self._topic_names: dict[Uuid, str] = {}
        self.bootstrap = self._first_reachable(_addresses(bootstrap_servers))
        self._connection: RawConnection | None = None
        reported = self._api_versions()
        self.versions = {api.api_key: range(api.min_version, api.max_version + 1) for api in reported.api_keys}
        """The versions of each API that the broker reports."""
        self.features = {feature.name: feature.max_version_level for feature in reported.finalized_features}
        """The levels of features."""
        request = InitProducerIdRequest(transactional_id=None)  # no check gets id 0
        with suppress(NotSupportedError):
            self._repeat(self.bootstrap, request, 1, lambda response: response.error_code == 0, "no producer id")

    def _api_versions(self) -> Any:
        """Return the broker's response to ApiVersions v3, or v0 if it is older (KIP-511)."""
        request = ApiVersionsRequest(client_software_name="quorate", client_software_version="1")
        host, port = self.bootstrap
        for version in (3, 0):
            connection = RawConnection(host, port, self._config, timeout_s=self._connect_timeout_s)
            try:
                connection.send(request, version)
                frame = connection.frame()
            except TimeoutError:
                break
            except ConnectionError:
                continue
            finally:
                connection.close()
            if frame[4:6] != ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
                return decode_api(ApiVersionsResponse, frame, version, position=4)
        raise ClusterError(
            f"{host}:{port} does not respond to ApiVersions", "check that a broker listens there, TLS and the login"
        )

    def _first_reachable(self, addresses: Sequence[Address]) -> Address:
        failures = []
        for host, port in addresses:
            try:
                RawConnection(host, port, self._config, timeout_s=self._connect_timeout_s).close()
            except OSError as error:
                failures.append(f"{host}:{port}: {error}")
            else:
                return host, port
        raise ClusterError(f"cannot connect to a broker: {'; '.join(failures)}", "check the address, TLS and the login")

    def is_reachable(self) -> bool:
        """Return whether the bootstrap broker responds.

        A proxy, such as Docker's, accepts connections also if its broker has ended.
        """
        try:
            self._api_versions()
        except (OSError, ClusterError):
            return False
        return True

    def connect(self, address: Address) -> RawConnection:
        """Return a new connection."""
        return RawConnection(*address, self._config)

    def request(self, request: Message, version: int) -> Any:
        """Send a request to the bootstrap broker, with the newest version up to `version`."""
        api = api_of(type(request))
        if hasattr(self, "versions"):
            version = self.newest(api.name, version)
        if self._connection is None:
            self._connection = self.connect(self.bootstrap)
        try:
            return self._connection.request(request, version)
        except (ConnectionError, TimeoutError) as error:
            self.close()
            raise ClusterError(f"{self.bootstrap[0]}:{self.bootstrap[1]}: {api.name} v{version}: {error}") from error

    def newest(self, api_name: str, version: int) -> int:
        """Return the newest version of an API that the broker has, up to `version`.

        Raises `NotSupportedError`.
        """
        api = api_of(api_name)
        offered = self.versions.get(api.key)
        if offered is None:
            raise NotSupportedError(f"the broker does not have {api_name}")
        newest = min(version, offered[-1], api.versions[-1])
        if newest < offered[0]:
            raise NotSupportedError(f"the broker does not have {api_name} v{version}")
        return newest

    def close(self) -> None:
        """Close the connection to the bootstrap broker."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # ---- which broker

    def address_for(self, request: Message) -> Address:
        """Return the broker that handles a request; the bootstrap broker if none is responsible."""
        name = api_of(type(request)).name
        if name in _TO_LEADERS:
            return self._leader(request)
        if name in _TO_CONTROLLER:
            return self._controller()
        if name in ("InitProducerId", "AddOffsetsToTxn", "EndTxn", "AddPartitionsToTxn", "DescribeTransactions"):
            ids = _first(
                request, "transactional_id", "v3_and_below_transactional_id", "transactional_ids", "transactions"
            )
            return self._coordinator(_TRANSACTION, ids)
        if name in ("Metadata", "FindCoordinator", "ListGroups", "ListTransactions"):
            return self.bootstrap
        return self._coordinator(_GROUP, _first(request, "group_id", "group_ids", "groups_names", "groups"))

    def coordinator_of(self, group_id: str) -> Address:
        """Return the coordinator of a group."""
        return self._coordinator(_GROUP, group_id)

    def _coordinator(self, kind: int, key: str | None) -> Address:
        if not key:
            return self.bootstrap
        if (kind, key) not in self._coordinators:
            deadline = time.monotonic() + _PATIENCE_S
            while True:
                found = self._find_coordinator(kind, key)
                if found is not None or time.monotonic() > deadline:
                    break
                time.sleep(0.1)
            if found is None:
                return self.bootstrap
            self._coordinators[kind, key] = found
        return self._coordinators[kind, key]

    def _find_coordinator(self, kind: int, key: str) -> Address | None:
        version = self.newest("FindCoordinator", 4)
        if version < 4:
            request = FindCoordinatorRequest(key=key, key_type=kind)
            coordinator = self.request(request, version)
        else:
            (coordinator,) = self.request(
                FindCoordinatorRequest(coordinator_keys=(key,), key_type=kind), 4
            ).coordinators
        if coordinator.error_code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return None
        return (coordinator.host, coordinator.port) if coordinator.error_code == 0 else self.bootstrap

    def forget_coordinators(self) -> None:
        """Look coordinators and leaders up again: an error said that they moved."""
        self._coordinators.clear()
        self._leaders.clear()

    def _leader(self, request: Message) -> Address:
        for name in ("topics", "topic_data"):
            for topic in getattr(request, name, ()):
                named = next((value for field in ("name", "topic") if (value := getattr(topic, field, ""))), "")
                name = named or self._topic_names.get(getattr(topic, "topic_id", Uuid.ZERO), "")
                if (name, 0) in self._leaders or self._look_up(name):
                    partition = next(_partitions(topic), 0)
                    return self._leaders.get((name, partition)) or self._leaders[name, 0]
        return self.bootstrap

    def _look_up(self, topic: str) -> bool:
        if not topic.startswith(self._prefix):
            return False
        metadata = self._metadata(topic)
        brokers = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
        for partition in metadata.topics[0].partitions:
            if partition.leader_id in brokers:
                self._leaders[topic, partition.partition_index] = brokers[partition.leader_id]
        return (topic, 0) in self._leaders

    def _metadata(self, topic: str | None) -> Any:
        topics = [{"name": topic}] if topic else []
        return self.request(message_of(MetadataRequest, {"topics": topics, "allow_auto_topic_creation": False}), 12)

    def _controller(self) -> Address:
        metadata = self._metadata(None)
        brokers = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
        return brokers.get(metadata.controller_id, self.bootstrap)

    def brokers(self) -> list[Address]:
        """Return the addresses of all brokers."""
        return [(broker.host, broker.port) for broker in self._metadata(None).brokers]

    def topic_id(self, topic: str) -> Uuid:
        """Return the id of a topic."""
        found: Uuid = self._metadata(topic).topics[0].topic_id
        return found

    # ---- what is created, and removed

    def create_topic(self, name: str, partitions: int, configs: Sequence[Mapping[str, str]]) -> None:
        """Create a topic, and wait until every broker knows its leaders. Raises `ClusterError`."""
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configs}
        request = message_of(CreateTopicsRequest, {"topics": [topic], "timeout_ms": _PATIENCE_S * 1000})
        version = self.newest("CreateTopics", 5)
        connection = self.connect(self._controller())
        try:
            (created,) = connection.request(request, version).topics
        finally:
            connection.close()
        if created.error_code:
            raise ClusterError(f"cannot create topic {name}: {ErrorCode(created.error_code).name}")
        for address in self.brokers():
            self._wait_for(name, partitions, address)
        self._publish(name)
        self._topic_names[self.topic_id(name)] = name

    def _wait_for(self, topic: str, partitions: int, address: Address) -> None:
        request = message_of(MetadataRequest, {"topics": [{"name": topic}], "allow_auto_topic_creation": False})

        def has_leaders(response: Any) -> bool:
            leaders = [part.leader_id for part in response.topics[0].partitions if part.leader_id >= 0]
            return len(leaders) == partitions

        self._repeat(address, request, 12, has_leaders, f"topic {topic} has no leaders")

    def _publish(self, topic: str) -> None:
        """Wait until the coordinators of all brokers know the topic.

        A broker applies metadata changes in order: if it reports a later change of a config, its
        coordinators have received the topic.
        """
        config, value = "segment.jitter.ms", "0"
        resource: dict[str, Any] = {"resource_type": 2, "resource_name": topic}
        change = [{"name": config, "config_operation": 0, "value": value}]
        fields = {"resources": [{**resource, "configs": change}]}
        self.request(message_of(IncrementalAlterConfigsRequest, fields), 1)
        fields = {"resources": [{**resource, "configuration_keys": [config]}]}
        request = message_of(DescribeConfigsRequest, fields)

        def is_set(response: Any) -> bool:
            sources = [each.config_source for each in response.results[0].configs]
            return _TOPIC_CONFIG in sources

        for address in self.brokers():
            self._repeat(address, request, 4, is_set, f"configs of {topic} cannot be changed")

    def _repeat(
        self, address: Address, request: Message, version: int, done: Callable[[Any], bool], failure: str
    ) -> None:
        version = self.newest(api_of(type(request)).name, version)
        deadline = time.monotonic() + _PATIENCE_S
        connection = self.connect(address)
        try:
            while not done(connection.request(request, version)):
                if time.monotonic() > deadline:
                    raise ClusterError(f"{failure} after {_PATIENCE_S} s")
                time.sleep(0.02)
        finally:
            connection.close()

    def clean(self) -> list[str]:
        """Delete the topics and groups with the prefix; return what could not be deleted."""
        self.forget_coordinators()
        left = []
        with suppress(NotSupportedError):
            left = self._delete_groups()
        with suppress(NotSupportedError):
            left += self._delete_topics()
        return left

    def _delete_topics(self) -> list[str]:
        names = tuple(topic.name for topic in self._every_topic() if topic.name and topic.name.startswith(self._prefix))
        if not names:
            return []
        version = self.newest("DeleteTopics", 5)
        connection = self.connect(self._controller())
        try:
            deleted = connection.request(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), version)
        finally:
            connection.close()
        return [f"topic {topic.name}" for topic in deleted.responses if topic.error_code]

    def _every_topic(self) -> Any:
        return self.request(MetadataRequest(topics=None, allow_auto_topic_creation=False), 9).topics

    def _delete_groups(self) -> list[str]:
        """Delete the groups with the prefix; again while share state is being deleted."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            left = [name for address in self.brokers() for name in self._delete_groups_of(address)]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.2)

    def _delete_groups_of(self, address: Address) -> list[str]:
        version = self.newest("ListGroups", 4)
        connection = self.connect(address)
        try:
            listed = connection.request(ListGroupsRequest(), version).groups
            names = tuple(group.group_id for group in listed if group.group_id.startswith(self._prefix))
            delete = DeleteGroupsRequest(groups_names=names)
            results = connection.request(delete, self.newest("DeleteGroups", 2)).results if names else ()
        finally:
            connection.close()
        gone = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
        return [
            f"group {group.group_id} ({ErrorCode(group.error_code).name})"
            for group in results
            if group.error_code not in gone
        ]


def _first(request: Message, *names: str) -> str | None:
    """Return the first group or transactional id in a request."""
    for name in names:
        value = getattr(request, name, None)
        if isinstance(value, tuple):
            value = value[0] if value else None
        for field in ("group_id", "transactional_id"):
            value = getattr(value, field, value)
        if isinstance(value, str) and value:
            return value
    return None


def _partitions(topic: Message) -> Iterator[int]:
    for name in ("partitions", "partition_data", "partition_indexes"):
        for partition in getattr(topic, name, ()):
            for field in ("partition_index", "partition", "index"):
                partition = getattr(partition, field, partition)
            yield partition


def _addresses(bootstrap_servers: str) -> list[Address]:
    found = []
    for text in bootstrap_servers.split(","):
        host, _, port = text.strip().rpartition(":")
        found.append((host.strip("[]"), int(port)))
    return found
