"""Random values of requests of consumer groups for `pair_requests`.

Instance ids of static members, subscriptions of classic members, regexes, keys of coordinators and
filters of groups. `Instances` follows the responses: a member reports its instance id in all
requests.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from quorate.codecs.api.broker.describe_topic_partitions import Cursor
from quorate.codecs.api.join_group import JoinGroupRequestProtocol
from quorate.codecs.consumer_protocol import encode_protocol
from quorate.codecs.messages import ConsumerProtocolSubscription

if TYPE_CHECKING:
    from tests.cluster.helpers.pair_requests import Requests

_INSTANCES = (*[None] * 6, "i", "i", "j")
_REGEX_SINCE = 1
_SHARE = 2
"""The type of a share coordinator's key."""

Values = dict[str, Any]
Make = Callable[["Requests", Values], Any]


class Instances:
    """Members with instance ids. `of`: member id → instance id."""

    def __init__(self) -> None:
        self.of: dict[str, str | None] = {}

    def observe(self, request: Any, response: Any) -> None:
        """Take the response to a request that may join a group."""
        name = type(request).__name__
        if name == "JoinGroupRequest" and response.member_id:
            self.of[response.member_id] = request.group_instance_id
        elif name == "ConsumerGroupHeartbeatRequest" and not response.error_code and request.member_epoch == 0:
            self.of[response.member_id or request.member_id] = request.instance_id


def _pick(*values: Any) -> Make:
    return lambda gen, _: gen.random.choice(values)


def _instance(gen: "Requests", values: Values) -> str | None:
    """Return the instance id of a request's member; of a new one, a random one."""
    member = values.get("member_id", "")
    if member in gen.instances.of and gen.random.random() < 0.9:
        return gen.instances.of[member]
    joins = gen.api.name in ("JoinGroup", "ConsumerGroupHeartbeat")
    return gen.random.choice(_INSTANCES) if joins or gen.random.random() < 0.1 else None


def _protocols(gen: "Requests", values: Values) -> tuple[JoinGroupRequestProtocol, ...]:
    topics = tuple(sorted({gen.named("a", "b", "c") for _ in range(gen.random.choice((0, 1, 1, 2)))}))
    message = ConsumerProtocolSubscription(topics=topics)
    metadata = encode_protocol(message, gen.random.choice((0, 1, 2, 3)))
    names = gen.random.choice((("range",), ("range", "roundrobin"), ("range",), ("range",), ()))
    return tuple(JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names)


def _names(gen: "Requests", values: Values) -> tuple[str, ...] | None:
    """Return a topic, or none if the member sends a regex instead.

    With several topics, the order of generated topic ids decides which member gets which partition.
    """
    if values["member_epoch"] != 0 and gen.random.random() < 0.8:
        return None
    gen.scratch["regex"] = gen.version >= _REGEX_SINCE and gen.random.random() < 0.25
    return () if gen.scratch["regex"] else (gen.topic(),)


def _regex(gen: "Requests", values: Values) -> str | None:
    """Return a regex that matches at most one topic, or null if that does not change."""
    if values["subscribed_topic_names"] is None:
        return None
    if not gen.scratch.pop("regex", False):
        return None if values["member_epoch"] == 0 else ""
    topic = gen.prefix + gen.random.choice(("a", "b", "c"))
    return gen.random.choice((topic, f"({topic}|nothing)", f"{gen.prefix}[x-z].*", f"^{topic}$", "", "(", "a{1001}"))


def _coordinator_keys(gen: "Requests", values: Values) -> tuple[str, ...]:
    return tuple(_coordinator_key(gen, values["key_type"]) for _ in range(gen.random.choice((1, 1, 2, 0))))


def _coordinator_key(gen: "Requests", key_type: int) -> str:
    if key_type != _SHARE:
        return gen.any_group()
    place = f"{gen.topic_id(None)}:{gen.partition()}"
    return gen.random.choice(
        (f"{gen.any_group()}:{place}",) * 3 + (place, "g", "g:x:0", f"a:b:{place}", f"{place}:x", "")
    )


def _commit_member(gen: "Requests", values: Values) -> int:
    """Return the generation or epoch of a member that commits in a transaction, or -1 for none."""
    if gen.random.random() < 0.6:
        gen.scratch["member"] = ""
        return -1
    gen.scratch["member"], epoch = gen.member(values["group_id"])
    return epoch if gen.random.random() < 0.9 else epoch + 1


def _cursor(gen: "Requests", values: Values) -> Cursor | None:
    if gen.random.random() < 0.6:
        return None
    named = [one.name for one in values["topics"]]
    name = gen.random.choice(named) if gen.random.random() < 0.7 and named else gen.topic()
    return Cursor(topic_name=name, partition_index=gen.random.choice((0, 0, 1, 2, 5, -1)))


SENSIBLE_GROUPS: Mapping[str, Make] = {
    "group_instance_id": _instance,
    "ConsumerGroupHeartbeatRequest.instance_id": _instance,
    "JoinGroupRequest.protocols": _protocols,
    "ConsumerGroupHeartbeatRequest.subscribed_topic_names": _names,
    "ConsumerGroupHeartbeatRequest.subscribed_topic_regex": _regex,
    "ConsumerGroupHeartbeatRequest.rack_id": _pick(*[None] * 6, "a", "b", ""),
    "server_assignor": _pick(*[None] * 6, "uniform", "range", "nothing", ""),
    "key_type": _pick(0, 0, 1, _SHARE),
    "coordinator_keys": _coordinator_keys,
    "TxnOffsetCommitRequest.generation_id_or_member_epoch": _commit_member,
    "TxnOffsetCommitRequest.member_id": lambda gen, _: gen.scratch.pop("member", ""),
    "states_filter": _pick(
        (),
        (),
        ("Stable",),
        ("stable",),
        ("Bogus",),
        ("Empty",),
        ("Assigning", "RECONCILING"),
        ("Dead", ""),
        ("NotReady",),
    ),
    "types_filter": _pick(
        (), (), ("consumer",), ("Classic",), ("bogus",), ("share",), ("Streams", "classic"), ("unknown",), ("",)
    ),
    "DescribeTopicPartitionsRequest.cursor": _cursor,
}
"""As `SENSIBLE` of `pair_values`."""
