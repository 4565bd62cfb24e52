"""Intended differences from Kafka, each with a reason and requests that show it (`test_pair`)."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quorate.codecs.api.broker import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    ListOffsetsRequest,
    ProduceRequest,
)
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.codecs.api.broker.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.batches import BatchRecord, encode_batch
from tests.cluster.helpers.pair import Difference, Pair

_BROKER = 4
_LATEST_TIME = -3


@dataclass(frozen=True, slots=True)
class Gap:
    """A difference.

    `path`: a pattern of API and fields, as in `Difference`. `shows`: sends a request that shows it.
    `fits`: whether a request may show it.
    """

    path: str
    reason: str
    shows: Callable[[Pair], list[Difference]]
    fits: Callable[[Any], bool] = lambda request: True

    def covers(self, difference: Difference) -> bool:
        where = f"{difference.api} {difference.path}"
        return re.fullmatch(self.path, where) is not None and self.fits(difference.request)


def _versions(pair: Pair) -> list[Difference]:
    return pair.request(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 3)[2]


def _settings_of_broker(pair: Pair) -> list[Difference]:
    resource = DescribeConfigsResource(resource_type=_BROKER, resource_name="1", configuration_keys=None)
    return pair.request(DescribeConfigsRequest(resources=(resource,)), 4)[2]


def _is_of_broker(request: Any) -> bool:
    return any(resource.resource_type == _BROKER for resource in request.resources)


def _time_of_deleted(pair: Pair) -> list[Difference]:
    name = "deleted-records"
    made = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    pair.request(CreateTopicsRequest(topics=(made,), timeout_ms=5000), 7)
    pair.settle()
    data = encode_batch([BatchRecord(offset=0, timestamp_ms=int(time.time() * 1000), key=b"k", value=b"v")])
    produced = TopicProduceData(name=name, partition_data=(PartitionProduceData(index=0, records=data),))
    pair.request(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=(produced,)), 9)
    deleted = DeleteRecordsTopic(name=name, partitions=(DeleteRecordsPartition(partition_index=0, offset=-1),))
    pair.request(DeleteRecordsRequest(topics=(deleted,), timeout_ms=5000), 2)
    listed = ListOffsetsTopic(name=name, partitions=(ListOffsetsPartition(partition_index=0, timestamp=_LATEST_TIME),))
    return pair.request(ListOffsetsRequest(replica_id=-1, topics=(listed,)), 8)[2]


def _requests_times(request: Any) -> bool:
    return any(
        part.timestamp == _LATEST_TIME or part.timestamp >= 0 for topic in request.topics for part in topic.partitions
    )


GAPS: tuple[Gap, ...] = (
    Gap("ApiVersions api_keys#", "APIs that the embedded cluster does not implement are not reported", _versions),
    Gap(
        r"DescribeConfigs results\[\]\.configs(#|\[\].*)",
        "the two brokers are started with other configs: addresses, folders, threads",
        _settings_of_broker,
        _is_of_broker,
    ),
    Gap(
        r"ListOffsets topics\[\]\.partitions\[\]\.(timestamp|offset|leader_epoch)",
        "deleted records are gone at once, where a broker finds their times until it cleans up",
        _time_of_deleted,
        _requests_times,
    ),
)


def undeclared(differences: list[Difference]) -> list[Difference]:
    """Return the differences that no gap covers."""
    return [difference for difference in differences if not any(gap.covers(difference) for gap in GAPS)]
