"""A member whose coordinator is written down in the test."""

from dataclasses import dataclass, field

from quorate.codecs import Uuid
from quorate.codecs.api.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.consumers import ConsumerMembership, Heartbeat, Identity, TopicSubscription
from quorate.consumers.actions import Action

ORDERS = Uuid(b"o" * 16)
INTERVAL_MS = 5_000


@dataclass
class ScriptedMember:
    membership: ConsumerMembership
    now_ms: int = 1_000_000
    actions: list[Action] = field(default_factory=list)
    last: Heartbeat | None = None

    @classmethod
    def subscribed(
        cls, *, listener: bool = True, auto_commit: bool = False, instance_id: str | None = None
    ) -> "ScriptedMember":
        """Return a member that is about to join."""
        identity = Identity("group", "member", instance_id=instance_id, rack_id="a", rebalance_timeout_ms=60_000)
        self = cls(ConsumerMembership(identity, now_ms=1_000_000, auto_commit=auto_commit, jitter=0))
        self.membership.coordinator_known = True
        self.membership.topic_names({ORDERS: "orders"})
        self.membership.subscribe(TopicSubscription(["orders"], has_listener=listener))
        self.poll()
        return self

    @classmethod
    def stable(cls, *numbers: int, **options: object) -> "ScriptedMember":
        """Return a member that owns these partitions of `orders`."""
        self = cls.subscribed(**options)  # type: ignore[arg-type]
        self.beat()
        self.respond(epoch=1, orders=list(numbers))
        self.poll()
        self.finish()
        self.beat()
        self.respond(epoch=1)
        self.take()
        return self

    @property
    def state(self) -> str:
        return self.membership.state.value

    @property
    def owned(self) -> list[int]:
        return sorted(number for _, number in self.membership.owned)

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    def poll(self) -> None:
        self.membership.poll(self.now_ms)

    def beat(self) -> ConsumerGroupHeartbeatRequest | None:
        """Return the request of the heartbeat that is due."""
        heartbeat = self.membership.next_heartbeat(self.now_ms)
        self.last = heartbeat or self.last
        return heartbeat and heartbeat.request

    def respond(self, *, epoch: int = 0, orders: list[int] | None = None, error: ErrorCode = ErrorCode.NONE) -> None:
        """Respond to the last heartbeat."""
        assignment = None
        if orders is not None:
            topics = (TopicPartitions(topic_id=ORDERS, partitions=tuple(orders)),) if orders else ()
            assignment = Assignment(topic_partitions=topics)
        response = ConsumerGroupHeartbeatResponse(
            error_code=error,
            error_message="",
            member_id="member",
            member_epoch=epoch,
            heartbeat_interval_ms=INTERVAL_MS,
            assignment=assignment,
        )
        self.membership.on_response(response, self.now_ms, self.last)

    def take(self) -> list[str]:
        """Return what the member did since the last call, as text; keep actions to complete."""
        taken = self.membership.take_actions()
        self.actions += [action for action in taken if action in self.membership.pending]
        return [described(action) for action in taken]

    def finish(self, error: BaseException | None = None) -> None:
        """Execute all pending actions, also those that follow."""
        while self.take() or self.actions:
            actions, self.actions = self.actions, []
            for action in actions:
                if type(action).__name__ == "AssignPartitions":
                    self.membership.apply(action)  # type: ignore[arg-type]
                self.membership.complete(action, error)
            if error is not None:
                return


def described(action: Action) -> str:
    """Return the action's name, and its partitions, state, epoch or error."""
    name = type(action).__name__
    for attribute in ("partitions", "new", "epoch", "error", "deadline_ms"):
        if hasattr(action, attribute):
            value = getattr(action, attribute)
            if attribute == "partitions" and isinstance(value, tuple):
                value = [number for _, number in value]
            return f"{name} {getattr(value, 'value', value) if attribute == 'new' else getattr(value, 'name', value)}"
    return name
