"""`survey`: the current state of a cluster as one of its brokers reports it, without waiting."""

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quorate.cluster.admin import metadata_from
from quorate.codecs import CONSUMER_OFFSETS

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from quorate.cluster.interface import Cluster

_TIMEOUT_MS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """One broker's view of the cluster.

    `unfenced`: live brokers. `controller`: the active one, if there is one. `leads`, `coordinates`:
    broker → number of partitions that it leads, of all topics and of `__consumer_offsets`.
    `without_leader`, `not_in_sync`: numbers of partitions without a leader, and with replicas that
    are not in sync.
    """

    unfenced: frozenset[int]
    controller: int | None
    topics: int
    partitions: int
    without_leader: int
    not_in_sync: int
    leads: dict[int, int]
    coordinates: dict[int, int]


def survey(cluster: "Cluster") -> Survey | None:
    """Request metadata from one running broker after the other, until one responds.

    Returns `None` if none responds within 5 s.
    """
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    for broker in cluster.brokers:
        if broker.state != "running":
            continue
        config = {**cluster.client_config, "bootstrap_servers": broker.address, "request_timeout_ms": _TIMEOUT_MS}
        try:
            with closing(
                KafkaAdminClient(**config, client_id="quorate-survey", bootstrap_timeout_ms=_TIMEOUT_MS)
            ) as admin:
                return _counted(metadata_from(admin, broker.id, None), _controller(admin))
        except KafkaError:
            continue
    return None


def _controller(admin: "KafkaAdminClient") -> int | None:
    from kafka.errors import KafkaError

    try:
        leader: int = admin.describe_metadata_quorum()["topics"][0]["partitions"][0]["leader_id"]
    except (KafkaError, LookupError):  # no majority of controllers
        return None
    return leader if leader >= 0 else None


def _counted(found: dict[str, Any], controller: int | None) -> Survey:
    partitions = [(topic["name"], part) for topic in found["topics"] for part in topic["partitions"]]
    return Survey(
        unfenced=frozenset(broker["node_id"] for broker in found["brokers"]),
        controller=controller,
        topics=len(found["topics"]),
        partitions=len(partitions),
        without_leader=sum(part["leader_id"] < 0 for _, part in partitions),
        not_in_sync=sum(set(part["isr_nodes"]) != set(part["replica_nodes"]) for _, part in partitions),
        leads=Counter(part["leader_id"] for _, part in partitions),
        coordinates=Counter(part["leader_id"] for name, part in partitions if name == CONSUMER_OFFSETS),
    )
