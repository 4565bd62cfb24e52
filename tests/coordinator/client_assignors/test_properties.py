"""Invariants of groups with client-side assignors, in random histories."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quorate.assignors import Assignor, RangeAssignor, client_assignor, server_assignor
from quorate.assignors.prepared import error_request, install_request
from quorate.codecs.api import ConsumerGroupPrepareAssignmentResponse
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.client_assignors import ClientAssignor
from quorate.coordinator.client_assignors.computation import Phase
from quorate.coordinator.client_assignors.computing_member import computation_of
from quorate.coordinator.log import StoredRecord
from quorate.coordinator.state import CoordinatorState
from quorate.coordinator.state.consumer import ConsumerGroup
from tests.coordinator.client_assignors.scene import CLICKS, ORDERS, Scene, computes, installed, topic
from tests.extent import portion

NAMES = st.sampled_from("ABCDE")
ASSIGNORS: list[Assignor] = [RangeAssignor(), client_assignor("sticky"), server_assignor("uniform")]
OFFERS = st.sampled_from(
    [
        (ClientAssignor(name="mine", maximum_version=2),),
        (ClientAssignor(name="mine", maximum_version=2, reason=1, metadata=b"!"),),
        (
            ClientAssignor(name="mine", minimum_version=2, maximum_version=4, metadata_version=3),
            ClientAssignor(name="other"),
        ),
        (ClientAssignor(name="other"), ClientAssignor(name="mine", maximum_version=1)),
        (ClientAssignor(name="mine", minimum_version=3, maximum_version=4, metadata_version=3),),
        (),
    ]
)


class Computing(RuleBasedStateMachine):
    """Members join, compute, fail, are slow, leave and rejoin.

    The coordinator loses writes and moves to other brokers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(group_consumer_session_timeout_ms=45_000, group_consumer_assignment_interval_ms=1_000)
        self.partitions = 4
        self.fetched: dict[str, tuple[int, ConsumerGroupPrepareAssignmentResponse]] = {}
        self.epochs = (0, 0)
        self.left = 0

    @property
    def group(self) -> ConsumerGroup | None:
        found = self.scene.runtime.shard.state.groups.get("g")
        return found if isinstance(found, ConsumerGroup) else None

    @initialize(count=st.integers(1, 3))
    def begin(self, count: int) -> None:
        self.set_partitions(4)
        for member_id in "ABC"[:count]:
            self.scene.join(member_id, topics=("orders", "clicks"))

    def set_partitions(self, count: int) -> None:
        self.partitions = count
        self.scene.image = self.scene.image.with_topics([topic("orders", ORDERS, count), topic("clicks", CLICKS, 2)])
        self.scene.runtime.take_image(self.scene.image)

    # Steps of members

    @rule(member_id=NAMES, offers=OFFERS, both=st.booleans(), static=st.booleans())
    def joins(self, member_id: str, offers: Any, both: bool, static: bool) -> None:
        if member_id in self.scene.members:
            return
        self.left += 1  # a restarted consumer has a new id
        instance = f"i{member_id}" if static else None
        topics = ("orders", "clicks") if both else ("orders",)
        self.scene.join(f"{member_id}{self.left}", assignors=offers, instance_id=instance, topics=topics)

    @precondition(lambda self: self.scene.members)
    @rule(data=st.data())
    def beats(self, data: st.DataObject) -> None:
        self.scene.beat(self.one(data))

    @precondition(lambda self: self.scene.members)
    @rule(data=st.data())
    def all_beat(self, data: st.DataObject) -> None:
        for member_id in self.scene.members:
            self.scene.beat(member_id)

    @precondition(lambda self: self.scene.members)
    @rule(data=st.data())
    def keeps_partitions_that_it_must_revoke(self, data: st.DataObject) -> None:
        member_id = self.one(data)
        if self.scene.members[member_id].epoch > 0:
            self.scene.beat(member_id, topic_partitions=None)

    @precondition(lambda self: self.scene.members)
    @rule(data=st.data(), offers=OFFERS)
    def changes_its_assignors(self, data: st.DataObject, offers: Any) -> None:
        self.scene.beat(self.one(data), client_assignors=offers)

    @precondition(lambda self: self.scene.members)
    @rule(data=st.data(), static=st.booleans())
    def leaves(self, data: st.DataObject, static: bool) -> None:
        member_id = self.one(data)
        member = self.scene.members[member_id]
        if member.epoch > 0:
            # As in Kafka, a member whose leave could not be written has no session until the log is
            # loaded.
            self.scene.log.fail_next = None
            self.scene.leave(member_id, epoch=-2 if static and member.instance_id else -1)

    @precondition(lambda self: self.scene.members)
    @rule(data=st.data())
    def dies(self, data: st.DataObject) -> None:
        del self.scene.members[self.one(data)]

    @rule()
    def a_classic_member_joins(self) -> None:
        """Add a member without assignors, which sends no heartbeats until its session times out."""
        group = self.group
        if group is not None and group.members and self.scene.join_classic("classic").error_code == ErrorCode.NONE:
            group = self.group
            assert group is None or computation_of(group).phase is Phase.IDLE or group.epoch == group.assignment_epoch

    # Steps of the computing member, or of another one

    @precondition(lambda self: self.scene.members)
    @rule(data=st.data())
    def fetches(self, data: st.DataObject) -> None:
        member_id = self.likely(data)
        response = self.scene.prepare(member_id)
        if response.error_code == ErrorCode.NONE:
            self.fetched[member_id] = self.scene.members[member_id].epoch, response

    @precondition(lambda self: self.fetched)
    @rule(data=st.data(), assignor=st.sampled_from(ASSIGNORS), error=st.sampled_from([0, 0, 0, 5]))
    def installs(self, data: st.DataObject, assignor: Assignor, error: int) -> None:
        member_id = data.draw(st.sampled_from(sorted(self.fetched)))
        epoch, response = self.fetched.pop(member_id)
        me: dict[str, Any] = {"group_id": "g", "member_id": member_id, "member_epoch": epoch}
        request = error_request(response, error, **me) if error else install_request(response, assignor, **me)
        group = self.group
        turn = "" if group is None else computation_of(group).member_id
        before = len(self.scene.log.stored)
        code = self.scene.send_install(request)
        if code is ErrorCode.NONE:
            assert group is not None
            assert turn == member_id
            assert group.assignment_epoch == group.epoch == response.group_epoch
            assert computation_of(group).phase is Phase.IDLE
        else:
            assert len(self.scene.log.stored) == before

    @precondition(lambda self: self.scene.members and self.group)
    @rule(data=st.data(), give=st.lists(st.integers(-1, 7), max_size=6))
    def installs_an_invalid_assignment(self, data: st.DataObject, give: list[int]) -> None:
        member_id = self.likely(data)
        group = self.group
        assert group is not None
        listed = tuple(installed(member, give) for member in group.members)
        code = self.scene.install(member_id, {}, members=listed)
        if code is ErrorCode.NONE:
            assert len(listed) == 1 or not give
            assert set(give) <= set(range(self.partitions))

    # Steps of the cluster

    @rule(ms=st.sampled_from([1, 1_000, 5_000, 20_000, 44_999, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.scene.advance(ms)

    @rule(count=st.integers(1, 6))
    def the_topic_changes(self, count: int) -> None:
        self.set_partitions(max(count, self.partitions))

    @rule()
    def the_partition_moves_to_another_broker(self) -> None:
        self.scene.reload()

    @rule()
    def a_write_gets_lost(self) -> None:
        self.scene.log.fail_next = ErrorCode.NOT_ENOUGH_REPLICAS

    def one(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.scene.members)))

    def likely(self, data: st.DataObject) -> str:
        """Return a member id, mostly that of the computing member."""
        turn = "" if self.group is None else computation_of(self.group).member_id
        return turn if turn in self.scene.members and data.draw(st.integers(0, 3)) else self.one(data)

    # Invariants

    @invariant()
    def partitions_have_one_owner(self) -> None:
        if self.group is None:
            return
        owners: dict[Any, str] = {}
        for member_id, member in self.group.members.items():
            for owned in (member.assigned, member.pending_revocation):
                for topic_id, numbers in owned.items():
                    for number in numbers:
                        assert owners.setdefault((topic_id, number), member_id) == member_id
        of_members: dict[Any, str] = {}
        for member_id, consumer in self.scene.members.items():
            known = self.group.members.get(member_id)
            if known is None or known.epoch < 0 or consumer.epoch not in (known.epoch, known.previous_epoch):
                continue  # it was fenced
            for topic_id, numbers in consumer.owned.items():
                for number in numbers:
                    assert of_members.setdefault((topic_id, number), member_id) == member_id

    @invariant()
    def epochs_never_decrease(self) -> None:
        if self.group is None:
            self.epochs = (0, 0)
            return
        now = self.group.epoch, self.group.assignment_epoch
        assert now >= self.epochs
        assert now[1] <= now[0]
        self.epochs = now

    @invariant()
    def at_most_one_member_computes(self) -> None:
        if self.group is None:
            return
        turn = computation_of(self.group).member_id
        responses = {
            one: self.scene.prepare(one, member_epoch=member.epoch)
            for one, member in self.group.members.items()
            if one != turn and member.epoch >= 0
        }
        assert {response.error_code for response in responses.values()} <= {ErrorCode.UNKNOWN_MEMBER_ID}
        assert (turn == "") == (computation_of(self.group).phase is Phase.IDLE)

    @invariant()
    def replaying_the_log_gives_the_same_group(self) -> None:
        state = CoordinatorState()
        for one in self.scene.log.stored:
            assert isinstance(one, StoredRecord)
            state.replay(one.record, offset=one.offset, strict=True)
        assert content(state) == content(self.scene.runtime.shard.state)

    def teardown(self) -> None:
        """Let the remaining members behave correctly until they reach the latest target."""
        self.scene.log.fail_next = None
        rounds = 0
        while self.scene.members and rounds < 60:
            rounds += 1
            self.scene.advance(5_000)
            for member_id in list(self.scene.members):
                if computes(self.scene.beat(member_id)):
                    assert self.scene.compute(member_id) is ErrorCode.NONE
            if rounds > 25 and self.group is not None and self.group.state == "Stable":
                break
        if self.scene.members:
            assert self.group is not None
            assert self.group.state == "Stable", "all members reached the last target"
            assert self.group.assignment_epoch == self.group.epoch
            for member_id in self.group.members:
                assert self.scene.current(member_id)[1] == self.scene.target(member_id) == self.scene.owns(member_id)


def content(state: CoordinatorState) -> dict[str, Any]:
    return {
        name: (
            group.epoch,
            group.assignment_epoch,
            group.assignment_timestamp_ms,
            group.metadata_hash,
            dict(group.members),
            dict(group.targets),
            group.target_tags,
            group.target_epoch_tags,
            group.partition_epochs.by_topic(),
        )
        for name, group in state.groups.items()
        if isinstance(group, ConsumerGroup)
    }


TestComputing = Computing.TestCase
TestComputing.settings = settings(max_examples=portion(150), stateful_step_count=50, deadline=None)
