"""The op `clientAssign`: the client-side assignors, answered by quorate."""

from dataclasses import replace

from quorate.assignors.registry import CLIENT_ASSIGNORS, client_assignor
from tests.assignors.read_cases import read_case
from tests.differential.ops import OPS, Answer, BadInput, need, op

__all__ = ["OPS"]


@op("clientAssign")
def client_assign(asked: Answer) -> Answer:
    name = need(asked, "assignor")
    if name not in CLIENT_ASSIGNORS:
        raise BadInput(f"no client assignor {name}")
    for field in ("consumers", "partitions"):
        need(asked, field)
    members, topology = read_case(asked)
    if (
        name == "sticky"
    ):  # Kafka's takes nothing from the subscription's own fields but the generation; ours does, where there is no user data
        members = {key: one if one.user_data else replace(one, owned=()) for key, one in members.items()}
    assignment = client_assignor(name).assign(members, topology)
    return {
        "assignment": {
            member: [f"{topic}-{partition}" for topic, partition in given] for member, given in assignment.items()
        }
    }
