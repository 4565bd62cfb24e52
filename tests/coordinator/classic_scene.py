"""A classic group on Kafka's coordinator and ours, whose responses must be equal."""

from typing import Any

from tests.coordinator.classic_scripts import subscription
from tests.coordinator.scripts import Answer, Duel
from tests.oracle.client import Oracle

__all__ = ["RANGE", "Scene"]

RANGE = [{"name": "range", "metadata": subscription("t0")}]


class Scene:
    """One group, "g".

    `answers`: responses of requests that were pending, by line.
    """

    def __init__(self, oracle: Oracle, **config: Any) -> None:
        self.duel = Duel(oracle)
        self.answers: dict[int, Answer] = {}
        self.op("config", **{"group.initial.rebalance.delay.ms": 0, **config})

    def op(self, op: str, **fields: Any) -> Answer:
        """Ask both."""
        reply = self.duel.op(op, **fields)
        self.answers |= {one["id"]: one["response"] for one in reply.get("completed", ())}
        return reply

    def request(self, api: str, version: int, **body: Any) -> Answer:
        """Ask both; gives the line of the request, and its response, if it did not have to wait."""
        return self.op("request", api=api, version=version, clientId="c", body={"groupId": "g", **body})

    def join(
        self, member_id: str = "", *, version: int = 9, instance: str | None = None, protocols: Any = RANGE, **more: Any
    ) -> Answer:
        """JoinGroup."""
        body: dict[str, Any] = {
            "sessionTimeoutMs": 10_000,
            "memberId": member_id,
            "protocolType": "consumer",
            "protocols": protocols,
            **({"rebalanceTimeoutMs": 20_000} if version >= 1 else {}),
            **({"groupInstanceId": instance} if version >= 5 else {}),
        }
        return self.request("JoinGroup", version, **{**body, **more})

    def member(self, **more: Any) -> str:
        """A dynamic member joins in two steps; its id."""
        member_id: str = self.join(**more)["response"]["memberId"]
        self.join(member_id, **more)
        return member_id

    def joined(self, line: Answer) -> Answer:
        """Return the response to a request, which must be complete."""
        response = line["response"] or self.answers[line["id"]]
        assert isinstance(response, dict)
        return response

    def wait_for(self, line: Answer) -> Answer:
        """Advance the clock by seconds until a request completes; returns its response."""
        for _ in range(60):
            if line["response"] or line["id"] in self.answers:
                break
            self.advance(1000)
        return self.joined(line)

    def sync(self, member_id: str, generation: int, *, version: int = 4, **given: str) -> Answer:
        """SyncGroup; `given`: assignments in base64, if it is the leader."""
        assignments = [{"memberId": one, "assignment": data} for one, data in given.items()]
        return self.request("SyncGroup", version, memberId=member_id, generationId=generation, assignments=assignments)

    def heartbeat(self, member_id: str, generation: int) -> int:
        """Heartbeat; its error."""
        code: int = self.request("Heartbeat", 4, memberId=member_id, generationId=generation)["response"]["errorCode"]
        return code

    def advance(self, ms: int) -> Answer:
        """Time passes."""
        return self.op("advance", ms=ms)

    def state(self) -> str:
        """The group's state."""
        self.timers()
        state: str = self.described()["groupState"]
        return state

    def described(self) -> Answer:
        """DescribeGroups."""
        reply = self.op("request", api="DescribeGroups", version=6, body={"groups": ["g"]})
        group: Answer = reply["response"]["groups"][0]
        return group

    def members(self) -> list[str]:
        """The ids of the members."""
        return [one["memberId"] for one in self.described()["members"]]

    def timers(self) -> dict[str, int]:
        """What is due when: key → ms from now."""
        reply = self.op("timers")
        return {timer["key"]: timer["atMs"] - reply["now"] for timer in reply["timers"]}
