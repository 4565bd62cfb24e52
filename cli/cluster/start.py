"""`quorate cluster up`: start a lab from the options, and compare them with an existing lab."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions:
    """The options. `given` are the names of those on the command line."""

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
        """Number of brokers."""
        return len(self.racks) if self.brokers is None else self.brokers

    def check(self) -> None:
        """Raise `UserError` for options that contradict each other."""
        check_brokers(self.count, racks=len(self.racks) if "racks" in self.given else 0, port=self.port)

    def check_embedded(self) -> None:
        """Raise `UserError` for options that only apply to containers."""
        for option in ("image", "controllers", "heap_mb"):
            if option in self.given:
                raise UserError(f"--{option.replace('_', '-')} is for labs in containers", "add --runtime docker")


def start(name: str, requested: LabOptions, report: Callable[[str], None]) -> "KafkaCluster":
    """Start a new lab in containers.

    Containers are removed again if the start fails or is interrupted.
    """
    from quorate.integration.containers import DEFAULT_VERSION, KafkaCluster

    options: dict[str, Any] = {"heap_mb": requested.heap_mb} if requested.heap_mb is not None else {}
    return KafkaCluster(
        brokers=requested.brokers,
        racks=requested.racks,
        version=requested.version or DEFAULT_VERSION,
        image=requested.image,
        controllers=requested.controllers or 0,
        properties=broker_properties(requested.count, requested.properties),
        security="SASL_SSL" if requested.sasl else "PLAINTEXT",
        ports=None if requested.port is None else range(requested.port, requested.port + requested.count),
        lab=name,
        on_progress=report,
        **options,
    )


def start_embedded(name: str, requested: LabOptions, exists: bool, *, accept_data_loss: bool) -> "EmbeddedLab":
    """Start an embedded lab in a background process.

    If the lab `exists`, use its own plan and data instead of `requested`. Raises `ClusterError`.
    """
    from quorate.integration.embedded_lab import EmbeddedLab, LabPlan

    numbers = range(1, requested.count + 1)
    plan = LabPlan(
        version=requested.version or str(KafkaVersion.NEWEST),
        racks={number: requested.racks[(number - 1) % len(requested.racks)] for number in numbers},
        ports={} if requested.port is None else {number: requested.port + number - 1 for number in numbers},
        properties=broker_properties(requested.count, requested.properties),
        secure=requested.sasl,
    )
    return EmbeddedLab.start(name, None if exists else plan, accept_data_loss=accept_data_loss)


def differences(requested: LabOptions, lab: "Lab") -> str:
    """Describe how a lab differs from the options on the command line; empty if it does not."""
    plan = lab.plan
    versions = {broker.version for broker in lab.brokers}
    ports = list(plan.ports.values())
    found = {
        "brokers": (requested.count != len(plan.ports), f"{len(plan.ports)} brokers"),
        "racks": (
            ("brokers" not in requested.given and requested.count != len(plan.racks))
            or [requested.racks[n % len(requested.racks)] for n in range(len(plan.racks))] != list(plan.racks.values()),
            f"racks {','.join(rack or '-' for rack in plan.racks.values())}",
        ),
        "version": (versions != {requested.version}, f"Kafka {', '.join(sorted(versions))}"),
        "image": (requested.image != plan.image, f"the image {lab.image}"),
        "controllers": (requested.controllers != len(plan.controllers), f"{len(plan.controllers)} controllers"),
        "properties": (
            any(plan.properties.get(key) != value for key, value in requested.properties.items()),
            "other properties",
        ),
        "sasl": (requested.sasl != plan.secure, "SASL" if plan.secure else "no SASL"),
        "port": (requested.port != ports[0], f"port {ports[0]} for broker 1"),
        "heap_mb": (requested.heap_mb != plan.heap_mb, f"a heap of {plan.heap_mb} MB"),
    }
    return ", ".join(words for name, (differs, words) in found.items() if name in requested.given and differs)
