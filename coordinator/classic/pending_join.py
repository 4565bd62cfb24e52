"""A JoinGroup request with its context and pending response."""

from quorate.codecs.api import JoinGroupRequest, JoinGroupResponse
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.classic.group import LiveGroup, LiveMember
from quorate.coordinator.results import Pending, RequestContext


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJoin:
    """A JoinGroup of a client. `response`: completes once, now or later."""

    request: JoinGroupRequest
    context: RequestContext
    response: Pending[JoinGroupResponse]

    def as_member(self, member_id: str) -> LiveMember:
        """Return a new member with this id."""
        return LiveMember(
            member_id=member_id,
            group_instance_id=self.request.group_instance_id,
            client_id=self.context.client_id,
            client_host=self.context.client_host,
            rebalance_timeout_ms=self.request.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.request.protocols,
            is_new=True,
        )

    def update_member(self, group: LiveGroup, member: LiveMember) -> None:
        """Update a member from the request, and set its pending response."""
        group.update(
            member,
            self.request.protocols,
            rebalance_timeout_ms=self.request.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            joining=self.response,
        )
