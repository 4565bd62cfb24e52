"""`quorate cluster up`: a new cluster from the options, and whether one that is there is what they ask for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quorate.cli.cluster.options import broker_properties, check_brokers
from quorate.cli.errors import UserError
from quorate.codecs.releases import KafkaVersion

if TYPE_CHECKING:
    from quorate.cli.cluster.options import Lab
    from quorate.integration.containers import KafkaCluster
    from quorate.integration.embedded_lab import EmbeddedLab

__all__ = ["Wanted", "differences", "start", "start_embedded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options. `given`: the names of those that are on the command line."""

    brokers: int | None
    racks: Sequence[str | None]
    version: str | None
    image: str | None
    controllers: int | None
    properties: Mapping[str, str]
    sasl: bool
    port: int | None
    heap_mb: int | None
    given: frozenset[str]

    @property
    def count(self) -> int:
        """How many brokers."""
        return len(self.racks) if self.brokers is None else self.brokers

    def check(self) -> None:
        """Raises `UserError` for options that do not go together."""
        check_brokers(self.count, racks=len(self.racks) if "racks" in self.given else 0, port=self.port)

    def check_embedded(self) -> None:
        """Raises `UserError` for what only containers have."""
        for option in ("image", "controllers", "heap_mb"):
            if option in self.given:
                raise UserError(
                    f"--{option.replace('_', '-')} is for labs that run in containers", "add --runtime docker"
                )


def start(name: str, wanted: Wanted, tell: Callable[[str], None]) -> "KafkaCluster":
    """Start a cluster that is not there.

    What was started goes again if it does not come up, or on Ctrl-C.
    """
    from quorate.integration.containers import DEFAULT_VERSION, KafkaCluster

    options: dict[str, Any] = {"heap_mb": wanted.heap_mb} if wanted.heap_mb is not None else {}
    return KafkaCluster(
        brokers=wanted.brokers,
        racks=wanted.racks,
        version=wanted.version or DEFAULT_VERSION,
        image=wanted.image,
        controllers=wanted.controllers or 0,
        properties=broker_properties(wanted.count, wanted.properties),
        security="SASL_SSL" if wanted.sasl else "PLAINTEXT",
        ports=None if wanted.port is None else range(wanted.port, wanted.port + wanted.count),
        lab=name,
        on_progress=tell,
        **options,
    )


def start_embedded(name: str, wanted: Wanted, there: bool, *, accept_data_loss: bool = False) -> "EmbeddedLab":
    """Start an embedded cluster in a process of its own; one that was `there` goes on with what is in its folder, and as it was.

    Raises `ClusterError`.
    """
    from quorate.integration.embedded_lab import EmbeddedLab, LabPlan

    numbers = range(1, wanted.count + 1)
    plan = LabPlan(
        version=wanted.version or str(KafkaVersion.NEWEST),
        racks={number: wanted.racks[(number - 1) % len(wanted.racks)] for number in numbers},
        ports={} if wanted.port is None else {number: wanted.port + number - 1 for number in numbers},
        properties=broker_properties(wanted.count, wanted.properties),
        secure=wanted.sasl,
    )
    return EmbeddedLab.start(name, None if there else plan, accept_data_loss=accept_data_loss)


def differences(wanted: Wanted, lab: "Lab") -> str:
    """What the cluster has instead of what was asked for on the command line, in words; nothing if all is as it was asked for."""
    plan = lab.plan
    versions = {broker.version for broker in lab.brokers}
    ports = list(plan.ports.values())
    found = {
        "brokers": (wanted.count != len(plan.ports), f"{len(plan.ports)} brokers"),
        "racks": (
            ("brokers" not in wanted.given and wanted.count != len(plan.racks))
            or [wanted.racks[n % len(wanted.racks)] for n in range(len(plan.racks))] != list(plan.racks.values()),
            f"racks {','.join(rack or '-' for rack in plan.racks.values())}",
        ),
        "version": (versions != {wanted.version}, f"Kafka {', '.join(sorted(versions))}"),
        "image": (wanted.image != plan.image, f"the image {lab.image}"),
        "controllers": (wanted.controllers != len(plan.controllers), f"{len(plan.controllers)} controllers"),
        "properties": (
            any(plan.properties.get(key) != value for key, value in wanted.properties.items()),
            "other properties",
        ),
        "sasl": (wanted.sasl != plan.secure, "SASL" if plan.secure else "no SASL"),
        "port": (wanted.port != ports[0], f"port {ports[0]} for broker 1"),
        "heap_mb": (wanted.heap_mb != plan.heap_mb, f"a heap of {plan.heap_mb} MB"),
    }
    return ", ".join(words for name, (differs, words) in found.items() if name in wanted.given and differs)
