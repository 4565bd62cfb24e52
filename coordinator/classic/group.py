"""Classic groups with members, including the state that records do not contain."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from quorate.assignors.java_order import JavaHashMap, JavaHashSet
from quorate.codecs.api import JoinGroupResponse, SyncGroupResponse
from quorate.codecs.api.join_group import JoinGroupRequestProtocol, JoinGroupResponseMember
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.classic_group import MemberMetadata
from quorate.coordinator.classic.states import check_transition
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import Pending
from quorate.coordinator.state.classic import ClassicGroup, ClassicState, topics_of
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL

Protocols = Sequence[JoinGroupRequestProtocol]
"""The protocols that a member supports, in order of preference."""


@dataclass(slots=True, kw_only=True, eq=False)
class LiveMember:
    """A member of a classic group.

    `joining`, `syncing`: its pending JoinGroup or SyncGroup response. `is_new`: its first JoinGroup
    response is pending, so it cannot send heartbeats.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    joining: Pending[JoinGroupResponse] | None = None
    syncing: Pending[SyncGroupResponse] | None = None

    def protocol_metadata(self, protocol: str | None) -> bytes:
        """Return the metadata that the member sent for a protocol.

        Raises `ApiError` if it does not support it. Such a protocol is selected only if another
        member lists it twice, and so counts for two (see `LiveGroup.select_protocol`).
        """
        metadata = next((offered.metadata for offered in self.protocols if offered.name == protocol), None)
        if metadata is None:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"member {self.member_id} does not support {protocol}")
        return metadata

    @property
    def is_waiting(self) -> bool:
        """Whether a pending response keeps its session alive.

        New members time out nevertheless, as their client may have retried.
        """
        return not self.is_new and (self.joining is not None or self.syncing is not None)


class LiveGroup(ClassicGroup):
    """A classic group, including the state that records do not contain.

    `phase`: its state, since `since_ms`; `previous_phase`: `ClassicState.DEAD` at first. `leader`:
    id of the member that computes assignments. `order`: member ids in the order of Kafka's map.
    `static_members`: instance id → member id. `pending`: generated member ids that have not
    rejoined (KIP-394). `unsynced`: members that have not sent SyncGroup in this generation.
    `joining_count`: number of members with a pending JoinGroup. `supporters`: protocol → number of
    members that support it. `new_member_added`: whether a member joined during the initial
    rebalance delay. For the other fields see `ClassicGroup`.
    """

    __slots__ = (
        "generation",
        "joining_count",
        "leader",
        "new_member_added",
        "order",
        "pending",
        "phase",
        "previous_phase",
        "protocol",
        "protocol_type",
        "since_ms",
        "static_members",
        "subscribed_topics",
        "supporters",
        "unsynced",
    )

    members: dict[str, LiveMember]
    generation: int
    protocol: str | None
    protocol_type: str
    since_ms: int
    subscribed_topics: AbstractSet[str] | None

    def __init__(self, group_id: str, *, since_ms: int) -> None:
        super().__init__(group_id)
        self.members = {}
        self.phase: ClassicState = ClassicState.EMPTY
        self.previous_phase = ClassicState.DEAD
        self.since_ms = since_ms
        self.generation = 0
        self.protocol_type = ""
        self.protocol = None
        self.leader: str | None = None
        self.subscribed_topics = None
        self.order: JavaHashSet[str] = JavaHashSet()
        self.static_members: dict[str, str] = {}
        self.pending: set[str] = set()
        self.unsynced: set[str] = set()
        self.joining_count = 0
        self.supporters: dict[str, int] = {}
        self.new_member_added = False

    @classmethod
    def of(cls, group: ClassicGroup, now_ms: int) -> "LiveGroup":
        """Create a group from the replayed records.

        A group that was created by an offset commit is Empty since `now_ms`.
        """
        live = cls(group.group_id, since_ms=now_ms)
        record = group.metadata
        if record is None:
            return live
        live.since_ms = record.current_state_timestamp
        live.generation = record.generation
        live.protocol_type = record.protocol_type
        live.protocol = record.protocol
        live.leader = record.leader
        live.phase = ClassicState.STABLE if record.members else ClassicState.EMPTY
        for member in record.members:
            selected = JoinGroupRequestProtocol(name=record.protocol or "", metadata=member.subscription)
            unknown = member.rebalance_timeout == -1
            live.add(
                LiveMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.session_timeout if unknown else member.rebalance_timeout,
                    session_timeout_ms=member.session_timeout,
                    protocols=(selected,),
                    assignment=member.assignment,
                ),
                record.protocol_type,
            )
        live.subscribed_topics = group.subscribed_topics
        return live

    @property
    def state(self) -> str:
        """Kafka's name of `phase`."""
        return self.phase.value

    @property
    def is_empty(self) -> bool:
        """Whether its state is Empty: at first, and after a rebalance without members."""
        return self.phase is ClassicState.EMPTY

    @property
    def is_simple(self) -> bool:
        """Whether the group only has offsets."""
        return not self.protocol_type and not self.members and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of its members, in ms."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def ordered_members(self) -> list[LiveMember]:
        """Return the members in the order of Kafka's map."""
        return [self.members[member_id] for member_id in self.order]

    def subscription(self, member_id: str) -> bytes:
        """Return a member's metadata for the selected protocol."""
        return self.members[member_id].protocol_metadata(self.protocol)

    def static_member(self, instance_id: str) -> str | None:
        """Return the member id of an instance id."""
        return self.static_members.get(instance_id)

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        """Change the state. Raises `IllegalTransition` if the change is not allowed."""
        check_transition(self.group_id, self.phase, state)
        self.previous_phase, self.phase, self.since_ms = self.phase, state, now_ms

    # Members

    def add(self, member: LiveMember, protocol_type: str, joining: Pending[JoinGroupResponse] | None = None) -> None:
        """Add a member. The first member becomes leader and sets the protocol type."""
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.order.add(member.member_id)
        self._count_protocols(member.protocols, 1)
        self._set_pending_join(member, joining)
        self.pending.discard(member.member_id)

    def update(
        self,
        member: LiveMember,
        protocols: Protocols,
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        joining: Pending[JoinGroupResponse] | None,
    ) -> None:
        """Update a member's protocols and timeouts, and replace its pending JoinGroup."""
        self._count_protocols(member.protocols, -1)
        self._count_protocols(protocols, 1)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._set_pending_join(member, joining)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id.

        If it was the leader, the first member in Kafka's order becomes leader.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            self.order.discard(member_id)
            self._count_protocols(member.protocols, -1)
            self.joining_count -= member.joining is not None
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.order), None)
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)

    def rename(self, member: LiveMember, new_id: str) -> LiveMember:
        """Return a static member under another id (KIP-345), without pending responses.

        `unsynced` keeps the old id, as in Kafka.
        """
        old_id = member.member_id
        assert member.group_instance_id is not None
        renamed = replace(member, member_id=new_id, is_new=False, joining=None, syncing=None)
        del self.members[old_id]
        self.order.discard(old_id)
        self.members[new_id] = renamed
        self.order.add(new_id)
        if self.leader == old_id:
            self.leader = new_id
        self.static_members[member.group_instance_id] = new_id
        return renamed

    def _set_pending_join(self, member: LiveMember, joining: Pending[JoinGroupResponse] | None) -> None:
        self.joining_count += (joining is not None) - (member.joining is not None)
        member.joining = joining

    # Responses

    def complete_join(self, member: LiveMember, response: JoinGroupResponse) -> None:
        """Complete a member's pending JoinGroup, if any."""
        pending = member.joining
        if pending is not None:
            self._set_pending_join(member, None)
            pending.complete(response)

    def complete_sync(self, member: LiveMember, response: SyncGroupResponse) -> bool:
        """Complete a member's pending SyncGroup, if any. Return whether there was one."""
        pending, member.syncing = member.syncing, None
        if pending is None:
            return False
        pending.complete(response)
        return True

    def fail_pending_responses(self, code: int) -> None:
        """Complete all pending responses with an error."""
        for member in self.ordered_members():
            error = JoinGroupResponse(error_code=code, protocol_name=None, member_id=member.member_id)
            self.complete_join(member, error)
        for member in self.ordered_members():
            self.complete_sync(member, SyncGroupResponse(error_code=code))

    def members_for_leader(self) -> tuple[JoinGroupResponseMember, ...]:
        """Return all members for the leader's JoinGroup response."""
        return tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.protocol_metadata(self.protocol),
            )
            for member in self.ordered_members()
        )

    # Rebalances

    @property
    def all_joined(self) -> bool:
        """Whether all members have a pending JoinGroup and no member id is pending."""
        return self.joining_count == len(self.members) and not self.pending

    def elect_leader(self) -> bool:
        """Select the first joined member in Kafka's order as leader, unless the leader has joined.

        Returns False if no member has joined.
        """
        leader = None if self.leader is None else self.members.get(self.leader)
        if leader is None:
            return False
        if leader.joining is not None:
            return True
        joined = next((member for member in self.ordered_members() if member.joining is not None), None)
        if joined is None:
            return False
        self.leader = joined.member_id
        return True

    def init_next_generation(self, now_ms: int) -> None:
        """Select the protocol of the next generation; without members the group becomes Empty."""
        self.generation += 1
        self.set_protocol()
        state = ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY
        self.transition_to(state, now_ms)
        self.unsynced.clear()

    def set_protocol(self) -> None:
        """Set the selected protocol and the subscribed topics; without members, no protocol.

        Raises `ApiError`, see `select_protocol`.
        """
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed_topics = self._subscribed_topics()

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a member with these protocols can join.

        One of them must be supported by all members. An empty group accepts any protocol.
        """
        if self.phase is ClassicState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.protocol_type and any(
            self.supporters.get(name, 0) == len(self.members) for name in names
        )

    def select_protocol(self) -> str:
        """Return the protocol with the most votes.

        Each member votes for its first protocol that all members support. A tie is decided by the
        order of Kafka's map (java.util.HashMap of names). Raises `ApiError` if no protocol is
        supported by all. `supports` prevents that, unless a member lists a protocol twice.
        """
        votes: JavaHashMap[str, int] = JavaHashMap()
        for member in self.members.values():
            names = (protocol.name for protocol in member.protocols)
            vote = next((name for name in names if self.supporters[name] == len(self.members)), None)
            if vote is None:
                raise ApiError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"member {member.member_id} supports no protocol that all members support",
                )
            votes.put(vote, (votes.get(vote) or 0) + 1)
        return max(votes.items(), key=lambda item: item[1])[0]

    def _subscribed_topics(self) -> AbstractSet[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        return topics_of(member.protocol_metadata(self.protocol) for member in self.members.values())

    def _count_protocols(self, protocols: Protocols, change: int) -> None:
        for protocol in protocols:
            self.supporters[protocol.name] = self.supporters.get(protocol.name, 0) + change

    def recorded_members(self, assignments: Mapping[str, bytes]) -> tuple[MemberMetadata, ...]:
        """Return the members for a record. `assignments`: by member id."""
        return tuple(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.protocol_metadata(self.protocol),
                assignment=assignments[member.member_id],
            )
            for member in self.ordered_members()
        )
