"""The op `clientAssign`: run a client-side assignor of quorate."""

from dataclasses import replace

from quorate.assignors.registry import CLIENT_ASSIGNORS, client_assignor
from tests.assignors.read_cases import read_case
from tests.differential.ops import OPS, BadInput, Json, need, op

__all__ = ["OPS"]


@op("clientAssign")
def client_assign(request: Json) -> Json:
    name = need(request, "assignor")
    if name not in CLIENT_ASSIGNORS:
        raise BadInput(f"no client assignor {name}")
    for field in ("consumers", "partitions"):
        need(request, field)
    members, topology = read_case(request)
    if name == "sticky":
        # Kafka's sticky assignor reads owned partitions only from the user data. Ours reads
        # them from the subscription too.
        members = {
            member_id: member if member.user_data else replace(member, owned=())
            for member_id, member in members.items()
        }
    assignment = client_assignor(name).assign(members, topology)
    return {
        "assignment": {
            member_id: [f"{topic}-{partition}" for topic, partition in partitions]
            for member_id, partitions in assignment.items()
        }
    }
