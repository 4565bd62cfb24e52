"""The limit on partitions, which protects the process of a development cluster."""

from pathlib import Path

import pytest

from quorate.cluster import EmbeddedCluster, ManualClock
from quorate.codecs.api.broker import CreateTopicsRequest, DescribeConfigsRequest
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.config import ConfigError
from quorate.coordinator.errors import ApiError
from tests.cluster.helpers.wire import Wire
from tests.cluster.storage.test_restart import quiet_core

TEN = {"quorate.max.partitions": 10}


def code_of(refused: "pytest.ExceptionInfo[ApiError]") -> ErrorCode:
    return refused.value.code


def test_partitions_of_new_grown_and_deleted_topics_are_counted(tmp_path: Path) -> None:
    core = quiet_core(tmp_path, ManualClock(), **TEN)
    core.create_topic("a", partitions=6, replicas=1)
    with pytest.raises(ApiError, match="has 6 of at most 10 partitions; raise quorate") as refused:
        core.create_topic("b", partitions=5, replicas=1)
    assert code_of(refused) is ErrorCode.POLICY_VIOLATION
    core.create_topic("b", assignment=[[1], [2]])
    with pytest.raises(ApiError) as refused:
        core.create_topic("c", assignment=[[1], [2], [1]])
    assert code_of(refused) is ErrorCode.POLICY_VIOLATION
    core.add_partitions("b", 4)
    with pytest.raises(ApiError) as refused:
        core.add_partitions("b", 5)
    assert code_of(refused) is ErrorCode.POLICY_VIOLATION
    assert {name: len(topic.partitions) for name, topic in core.topics.items()} == {"a": 6, "b": 4}
    core.delete_topic("a")
    core.create_topic("c", partitions=6, replicas=1)
    core.close()
    again = quiet_core(tmp_path, ManualClock(), **TEN)
    with pytest.raises(ApiError):
        again.create_topic("d", partitions=1, replicas=1)


def test_clients_get_a_policy_violation_and_do_not_see_the_config() -> None:
    with EmbeddedCluster(properties=TEN) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        requested = CreatableTopic(name="t", num_partitions=11, replication_factor=1)
        (topic,) = wire.request(CreateTopicsRequest(topics=(requested,)), 7).topics
        assert topic.error_code == ErrorCode.POLICY_VIOLATION
        resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
        (shown,) = wire.request(DescribeConfigsRequest(resources=(resource,)), 4).results
        assert not [config.name for config in shown.configs if "quorate" in config.name]


def test_a_limit_that_is_not_a_number_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value many for configuration quorate\.max\.partitions"):
        EmbeddedCluster(properties={"quorate.max.partitions": "many"})
