"""Somebody who wants to be in a group: a JoinGroup with where it came from, and the answer that it waits for."""

from dataclasses import dataclass

from quorate.codecs.api import JoinGroupRequest, JoinGroupResponse
from quorate.coordinator.classic.group import LiveGroup, LiveMember
from quorate.coordinator.results import Pending, RequestContext

__all__ = ["Joiner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joiner:
    """`answer`: is completed now or later, once."""

    request: JoinGroupRequest
    context: RequestContext
    answer: Pending[JoinGroupResponse]

    def as_member(self, member_id: str) -> LiveMember:
        """A new member under this id."""
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

    def tell(self, group: LiveGroup, member: LiveMember) -> None:
        """What the request says becomes what is known of the member, which waits for its answer from now on."""
        group.update(
            member,
            self.request.protocols,
            rebalance_timeout_ms=self.request.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            joining=self.answer,
        )
