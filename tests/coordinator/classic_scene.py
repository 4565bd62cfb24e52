"""A classic group on Kafka's coordinator and ours, whose responses must be equal."""

from typing import Any

from tests.coordinator.classic_scripts import subscription
from tests.coordinator.scripts import Duel, Json
from tests.oracle.client import Oracle

RANGE = [{"name": "range", "metadata": subscription("t0")}]


class Scene:
    """A group "g". `responses`: those of requests that were pending, by the request's number."""

    def __init__(self, oracle: Oracle, **config: Any) -> None:
        self.duel = Duel(oracle)
        self.responses: dict[int, Json] = {}
        self.op("config", **{"group.initial.rebalance.delay.ms": 0, **config})

    def op(self, op: str, **fields: Any) -> Json:
        """Run an op on both sides."""
        reply = self.duel.op(op, **fields)
        self.responses |= {completed["id"]: completed["response"] for completed in reply.get("completed", ())}
        return reply

    def request(self, api: str, version: int, **body: Any) -> Json:
        """Send a request to both sides. The result has no response if the request is pending."""
        return self.op("request", api=api, version=version, clientId="c", body={"groupId": "g", **body})

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        instance: str | None = None,
        protocols: Any = RANGE,
        **fields: Any,
    ) -> Json:
        """Send JoinGroup."""
        body: dict[str, Any] = {
            "sessionTimeoutMs": 10_000,
            "memberId": member_id,
            "protocolType": "consumer",
            "protocols": protocols,
            **({"rebalanceTimeoutMs": 20_000} if version >= 1 else {}),
            **({"groupInstanceId": instance} if version >= 5 else {}),
        }
        return self.request("JoinGroup", version, **{**body, **fields})

    def member(self, **fields: Any) -> str:
        """Join as a dynamic member, in two requests, and return the member id."""
        member_id: str = self.join(**fields)["response"]["memberId"]
        self.join(member_id, **fields)
        return member_id

    def joined(self, request: Json) -> Json:
        """Return the response of a completed request."""
        response = request["response"] or self.responses[request["id"]]
        assert isinstance(response, dict)
        return response

    def wait_for(self, request: Json) -> Json:
        """Advance the clock by seconds until a request completes, and return its response."""
        for _ in range(60):
            if request["response"] or request["id"] in self.responses:
                break
            self.advance(1000)
        return self.joined(request)

    def sync(self, member_id: str, generation: int, *, version: int = 4, **by_member: str) -> Json:
        """Send SyncGroup. `by_member`: a leader's assignments in base64, by member id."""
        assignments = [{"memberId": member, "assignment": data} for member, data in by_member.items()]
        return self.request("SyncGroup", version, memberId=member_id, generationId=generation, assignments=assignments)

    def heartbeat(self, member_id: str, generation: int) -> int:
        """Send a heartbeat and return the error code."""
        code: int = self.request("Heartbeat", 4, memberId=member_id, generationId=generation)["response"]["errorCode"]
        return code

    def advance(self, ms: int) -> Json:
        """Advance the clock."""
        return self.op("advance", ms=ms)

    def state(self) -> str:
        """Return the group's state."""
        self.timers()
        state: str = self.described()["groupState"]
        return state

    def described(self) -> Json:
        """Return the group as in DescribeGroups."""
        reply = self.op("request", api="DescribeGroups", version=6, body={"groups": ["g"]})
        group: Json = reply["response"]["groups"][0]
        return group

    def members(self) -> list[str]:
        """Return the member ids."""
        return [member["memberId"] for member in self.described()["members"]]

    def timers(self) -> dict[str, int]:
        """Return the pending timers: key → ms from now."""
        reply = self.op("timers")
        return {timer["key"]: timer["atMs"] - reply["now"] for timer in reply["timers"]}
