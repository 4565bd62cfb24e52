"""Clusters that outlive the process that started them, found again by what the engine knows: no file tells of them.

A lab is everything that carries the label LAB with its name. What stays the same (`ContainersPlan`,
credentials) is in labels of its network; what may change, a broker's rack and version, in labels of
its container.
"""

import json
from collections.abc import Mapping
from contextlib import suppress

from quorate.cluster.errors import ClusterError
from quorate.integration.containers.engine import LAB, engine, remove_labelled
from quorate.integration.containers.plan import ContainersPlan
from quorate.integration.containers.security import Credentials
from quorate.integration.embedded_lab import check_lab_name

__all__ = ["check_name", "find_lab", "lab_labels", "lab_names", "lab_ports", "remove_lab"]

_PLAN = "io.quorate.plan"
_CREDENTIALS = "io.quorate.credentials"
_UNREADABLE = (TypeError, LookupError, ValueError)
"""What labels of another version of quorate lead to."""


def check_name(name: str) -> None:
    """Raises `ClusterError` for names that containers cannot have, and for those of labs that are there."""
    check_lab_name(name)
    if name in lab_names():
        raise ClusterError(f"there is a lab named {name} already")


def lab_names() -> list[str]:
    """The labs of which anything is there."""
    client = engine()
    chosen = {"label": LAB}
    labels = [container.labels for container in client.containers.list(all=True, filters=chosen, ignore_removed=True)]
    labels += [network.attrs.get("Labels") or {} for network in client.networks.list(filters=chosen)]
    labels += [volume.attrs.get("Labels") or {} for volume in client.volumes.list(filters=chosen)]
    return sorted({found[LAB] for found in labels if LAB in found})


def lab_labels(plan: ContainersPlan, credentials: Credentials | None) -> dict[str, str]:
    """Labels of a cluster's network, by which `find_lab` knows all of it again."""
    facts = {} if credentials is None else {_CREDENTIALS: json.dumps(credentials.facts)}
    return {_PLAN: json.dumps(plan.to_json()), **facts}


def lab_ports() -> set[int]:
    """Ports of this host that belong to labs, also while their brokers are stopped."""
    found: set[int] = set()
    for network in engine().networks.list(filters={"label": LAB}):
        with suppress(*_UNREADABLE):
            found |= set(_plan(network.attrs["Labels"]).ports.values())
    return found


def find_lab(name: str) -> tuple[ContainersPlan, Credentials | None]:
    """What a lab consists of.

    Raises `ClusterError` if there is no such lab, not all of it, or one that an older quorate has
    started.
    """
    networks = engine().networks.list(filters={"label": f"{LAB}={name}"})
    labels = [network.attrs["Labels"] for network in networks if _PLAN in network.attrs["Labels"]]
    if not labels:
        there = lab_names()
        if name in there:
            raise ClusterError(
                f"of the lab {name} only remains are there", f"remove them: quorate cluster down --name {name}"
            )
        raise ClusterError(
            f"there is no lab named {name}" + (f", only {', '.join(there)}" if there else ""),
            f"start it: quorate cluster up --name {name}",
        )
    try:
        secret = labels[0].get(_CREDENTIALS)
        return _plan(labels[0]), None if secret is None else Credentials(json.loads(secret))
    except _UNREADABLE:
        raise ClusterError(
            f"the lab {name} was started by another version of quorate",
            f"use that, or remove the lab: quorate cluster down --name {name}",
        ) from None


def _plan(labels: Mapping[str, str]) -> ContainersPlan:
    return ContainersPlan.from_json(json.loads(labels[_PLAN]))


def remove_lab(name: str) -> bool:
    """Remove a lab with its data, or what is left of one; whether there was anything."""
    return remove_labelled(LAB, name) > 0
