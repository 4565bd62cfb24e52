"""Random values of requests of share groups (KIP-932) for `pair_requests`.

Acknowledgements need offsets that a member has acquired, and sessions their next epoch, so that
`observe` follows the responses. Requests for share coordinators use a group without members, whose
state no leader of a partition has loaded.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from quorate.codecs import Uuid
from quorate.codecs.api import ShareGroupHeartbeatRequest
from quorate.codecs.api.broker import (
    IncrementalAlterConfigsRequest,
    ProduceRequest,
    ShareFetchRequest,
    ShareFetchResponse,
)
from quorate.codecs.api.broker.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.broker.share_fetch import AcknowledgementBatch
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.message import Message
from quorate.codecs.messages.share_state import StateBatch

if TYPE_CHECKING:
    from tests.cluster.helpers.pair_requests import Requests

SHARE_GROUP = "share-0"
_STATE = (
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
)
WEIGHTS = {
    "Produce": 5,
    "ShareFetch": 24,
    "ShareAcknowledge": 14,
    "ShareGroupHeartbeat": 5,
    "ShareGroupDescribe": 2,
    "DescribeShareGroupOffsets": 4,
    "AlterShareGroupOffsets": 3,
    "DeleteShareGroupOffsets": 2,
    "DeleteGroups": 1,
    "DeleteRecords": 1,
    **dict.fromkeys(_STATE, 4),
}
"""API → weight, in seeds about share groups."""
KIND_OF_GROUP = {
    **dict.fromkeys(("ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge"), "share"),
    **dict.fromkeys(("DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets"), "share"),
    **dict.fromkeys(_STATE, "state"),
}
_MEMBERS = ("m", "n")
_SUBSCRIBED = 0.95
_WAIT_MS = 300
"""A broker loads the state of a share-partition in another thread: without a wait, the first fetch
has no records.
"""

Values = dict[str, Any]
Make = Callable[["Requests", Values], Any]
Key = tuple[str | None, Uuid, int]


class ShareMembers:
    """What members of share groups know. `epochs`: (group, member) → next epoch of the session.

    `acquired`: (member, topic id, partition) → acquired batches.
    """

    def __init__(self) -> None:
        self.epochs: dict[tuple[str | None, str | None], int] = {}
        self.acquired: dict[Key, list[tuple[int, int]]] = {}

    def observe(self, request: Any, response: Any) -> None:
        """Take the response to ShareFetch or ShareAcknowledge."""
        key = request.group_id, request.member_id
        if response.error_code:
            return
        self.epochs[key] = request.share_session_epoch + 1
        if request.share_session_epoch == -1:
            self.acquired = {one: batches for one, batches in self.acquired.items() if one[0] != request.member_id}
        if not isinstance(response, ShareFetchResponse):
            return
        for topic in response.responses:
            for part in topic.partitions:
                batches = self.acquired.setdefault((request.member_id, topic.topic_id, part.partition_index), [])
                batches += [(one.first_offset, one.last_offset) for one in part.acquired_records]
                del batches[:-3]


def _pick(*values: Any) -> Make:
    return lambda gen, _: gen.random.choice(values)


def _epoch(gen: "Requests", values: Values) -> int:
    known = gen.shares.epochs.get((values["group_id"], values["member_id"]), 0)
    return known if gen.random.random() < 0.9 else gen.random.choice((-1, -1, 0, known + 1))


def _member(gen: "Requests", values: Values) -> str | None:
    gen.scratch["share_member"] = member = gen.random.choice((*_MEMBERS * 8, "", "x" * 37))
    return member


def _topic_id(gen: "Requests", values: Values) -> Uuid:
    """Return the id of a subscribed topic.

    Others have no share state, which a broker finds out before or after it responds.
    """
    subscribed = gen.api.name.startswith("Share") and gen.random.random() < _SUBSCRIBED
    name = gen.named("a", "b") if subscribed else values.get("topic")
    found = gen.topic_id(name) if name or not gen.api.name.startswith("Share") else Uuid(gen.random.randbytes(16))
    gen.scratch["share_topic"] = found
    return found


def _acknowledgements(gen: "Requests", values: Values) -> tuple[Message, ...]:
    pick, key = gen.random.choice, (gen.scratch.get("share_member"), gen.scratch.get("share_topic"))
    known = gen.shares.acquired.get((*key, values["partition_index"]), [])
    if (not known and gen.random.random() < 0.9) or gen.random.random() < 0.3:
        return ()
    first, last = pick(known) if known else (0, 1)
    if gen.random.random() < 0.3:
        first, last = pick(((first, first), (last, last), (first, last + 1), (last, first)))
    length = last - first + 1
    types = pick((1, 1, 1, 2, 2, 3, 0, 4 if gen.version >= 2 else 1))
    each = (types,) if length < 1 or gen.random.random() < 0.6 else tuple(pick((0, 1, 2, 3)) for _ in range(length))
    return (AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=each),)


def _state_batches(gen: "Requests", values: Values) -> tuple[Message, ...]:
    found, offset = [], max(values.get("start_offset", 0), 0)
    for _ in range(gen.random.choice((0, 1, 1, 2, 3))):
        first = offset + gen.random.choice((0, 0, 1, -1))
        offset = first + gen.random.choice((0, 1, 4))
        state = gen.random.choice((0, 0, 2, 4))
        found.append(
            StateBatch(
                first_offset=first,
                last_offset=offset,
                delivery_state=state,
                delivery_count=gen.random.choice((1, 1, 2)),
            )
        )
        offset += 1
    return tuple(found)


_FLOW = ("ShareFetchRequest", "ShareAcknowledgeRequest")
SENSIBLE_SHARE: Mapping[str, Make] = {
    **{f"{name}.member_id": _member for name in _FLOW},
    **{f"{name}.share_session_epoch": _epoch for name in _FLOW},
    "is_renew_ack": lambda gen, _: gen.random.random() < 0.1,
    "ShareFetchRequest.max_wait_ms": _pick(_WAIT_MS),
    "ShareFetchRequest.min_bytes": _pick(1),  # with 0, the first fetch does not wait for the state
    "max_records": _pick(500, 500, 500, 1, 3, 0),
    "batch_size": _pick(500, 500, 1, 2),
    "share_acquire_mode": _pick(0, 0, 0, 1),
    "acknowledgement_batches": _acknowledgements,
    "FetchPartition.partition_index": lambda gen, _: gen.random.choice((0, 0, 0, 1, 7)),
    "ShareFetchRequest.group_id": lambda gen, _: gen.random.choice((*[gen.prefix + SHARE_GROUP] * 20, "", None)),
    "ShareAcknowledgeRequest.group_id": lambda gen, _: gen.random.choice((*[gen.prefix + SHARE_GROUP] * 20, "", None)),
    "FetchTopic.topic_id": _topic_id,
    "AcknowledgeTopic.topic_id": _topic_id,
    "state_epoch": _pick(0, 0, 0, 1, 2, -1),
    "PartitionData.leader_epoch": _pick(0, 0, 0, 1, -1),
    "start_offset": _pick(0, 0, 1, 3, 10, -1),
    "delivery_complete_count": _pick(0, 0, 1, -1),
    "state_batches": _state_batches,
}
"""As `SENSIBLE` of `pair_values`."""


def share_members(prefix: str) -> list[tuple[Message, int]]:
    """Return requests after which members of a share group can fetch records."""
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=32, resource_name=prefix + SHARE_GROUP, configs=(config,))
    joins: list[tuple[Message, int]] = [
        (
            ShareGroupHeartbeatRequest(
                group_id=prefix + SHARE_GROUP,
                member_id=member,
                member_epoch=0,
                subscribed_topic_names=(prefix + "a", prefix + "b"),
            ),
            1,
        )
        for member in _MEMBERS
    ]
    return [
        (IncrementalAlterConfigsRequest(resources=(resource,)), 1),
        *joins,
    ]


def share_records(prefix: str) -> list[tuple[Message, int]]:
    """Return requests that produce records for these members.

    Which share-partitions a broker has loaded when it finds records depends on its threads.
    """
    records = [BatchRecord(offset=one, timestamp_ms=1_700_000_000_000, key=None, value=b"%d" % one) for one in range(4)]
    partition = PartitionProduceData(index=0, records=encode_batch(records))
    topic = TopicProduceData(name=prefix + "a", partition_data=(partition,))
    return [(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=(topic,)), 9)] * 2


def is_of_shares(request: Message) -> bool:
    """Return whether `ShareMembers` observes the responses to a request."""
    return isinstance(request, ShareFetchRequest) or type(request).__name__ == "ShareAcknowledgeRequest"
