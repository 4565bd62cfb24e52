"""Labs in containers: clusters that outlive the process that started them.

A lab is everything with the label LAB and its name. No file is needed. Labels of the network have
what does not change (`ContainersPlan`, credentials). Labels of a container have the broker's rack
and version.
"""

import json
from collections.abc import Mapping
from contextlib import suppress

from quorate.cluster.errors import ClusterError
from quorate.integration.containers.engine import LAB, engine, remove_labelled
from quorate.integration.containers.plan import ContainersPlan
from quorate.integration.containers.security import Credentials
from quorate.integration.embedded_lab import check_lab_name

_PLAN = "io.quorate.plan"
_CREDENTIALS = "io.quorate.credentials"
_UNREADABLE = (TypeError, LookupError, ValueError)
"""Errors from labels of another version of quorate."""


def check_name(name: str) -> None:
    """Raise `ClusterError` for invalid names, and for those of existing labs."""
    check_lab_name(name)
    if name in lab_names():
        raise ClusterError(f"a lab named {name} already exists")


def lab_names() -> list[str]:
    """Return the names of labs, also of incomplete ones."""
    client = engine()
    chosen = {"label": LAB}
    labels = [container.labels for container in client.containers.list(all=True, filters=chosen, ignore_removed=True)]
    labels += [network.attrs.get("Labels") or {} for network in client.networks.list(filters=chosen)]
    labels += [volume.attrs.get("Labels") or {} for volume in client.volumes.list(filters=chosen)]
    return sorted({label[LAB] for label in labels if LAB in label})


def lab_labels(plan: ContainersPlan, credentials: Credentials | None) -> dict[str, str]:
    """Return the labels of a cluster's network, from which `find_lab` restores it."""
    facts = {} if credentials is None else {_CREDENTIALS: json.dumps(credentials.facts)}
    return {_PLAN: json.dumps(plan.to_json()), **facts}


def lab_ports() -> set[int]:
    """Return the ports of this host that belong to labs, also those of stopped brokers."""
    found: set[int] = set()
    for network in engine().networks.list(filters={"label": LAB}):
        with suppress(*_UNREADABLE):
            found |= set(_plan(network.attrs["Labels"]).ports.values())
    return found


def find_lab(name: str) -> tuple[ContainersPlan, Credentials | None]:
    """Return the plan and the credentials of a lab.

    Raises `ClusterError` if the lab does not exist, is incomplete, or was started by another
    version of quorate.
    """
    networks = engine().networks.list(filters={"label": f"{LAB}={name}"})
    labels = [network.attrs["Labels"] for network in networks if _PLAN in network.attrs["Labels"]]
    if not labels:
        names = lab_names()
        if name in names:
            raise ClusterError(f"the lab {name} is incomplete", f"remove it: quorate cluster down --name {name}")
        raise ClusterError(
            f"lab {name} does not exist" + (f"; labs: {', '.join(names)}" if names else ""),
            f"start it: quorate cluster up --name {name}",
        )
    try:
        secret = labels[0].get(_CREDENTIALS)
        return _plan(labels[0]), None if secret is None else Credentials(json.loads(secret))
    except _UNREADABLE:
        raise ClusterError(
            f"the lab {name} was started by another version of quorate",
            f"use that version, or remove the lab: quorate cluster down --name {name}",
        ) from None


def _plan(labels: Mapping[str, str]) -> ContainersPlan:
    return ContainersPlan.from_json(json.loads(labels[_PLAN]))


def remove_lab(name: str) -> bool:
    """Remove a lab with its data, also an incomplete one. Returns whether anything was removed."""
    return remove_labelled(LAB, name) > 0
