"""The op `clientAssign`: client-side assignors of quorate."""

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
        # Kafka's sticky assignor reads owned partitions from the user data only; ours also from the
        # subscription.
        members = {key: one if one.user_data else replace(one, owned=()) for key, one in members.items()}
    assignment = client_assignor(name).assign(members, topology)
    return {
        "assignment": {
            member: [f"{topic}-{partition}" for topic, partition in given] for member, given in assignment.items()
        }
    }
