"""Format labs as text and as JSON."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.cluster.labs import majority_note
from quorate.cli.cluster.options import option_for
from quorate.cli.output import json_text, next_steps, table_lines

if TYPE_CHECKING:
    from quorate.cli.cluster.options import Lab
    from quorate.cluster.interface import BrokerInfo
    from quorate.integration.survey import Survey

LONG = 60
"""Commands of this many characters are shown without a remark."""

_COLOURS = {"running": "green", "fenced": "red", "paused": "yellow", "stopped": "red"}


def status_lines(lab: "Lab", found: "Survey | None", news: str = "") -> list[str]:
    """Return a heading with `news`, a row for each broker, missing replicas, and addresses.

    `found` is what the brokers report; `None` if none responds.
    """
    name = lab.lab_name
    lines = [click.style(f"{name}: {news or _in_short(lab, found)}; Kafka {lab.version} ({lab.image})", bold=True), ""]
    rows = [("broker", "rack", "address", "version", "leads", "coordinates", "state")]
    for broker in lab.brokers:
        counts = (
            ("", "")
            if found is None
            else (str(found.leads.get(broker.id, 0)), str(found.coordinates.get(broker.id, 0)))
        )
        state = _state(broker, found)
        if found is not None and found.controller == broker.id:
            state += ", active controller"
        rows.append((str(broker.id), broker.rack or "-", broker.address, broker.version, *counts, state))
    header, *body = table_lines(rows, right=(0, 4, 5))
    lines.append(header)
    for line, row in zip(body, rows[1:], strict=True):
        state = row[-1]
        colour = _COLOURS[state.partition(",")[0]]
        lines.append(line.removesuffix(state) + click.style(state, fg=colour))
    lines += ["", *_health(lab, found)]
    lines.append(f"bootstrap servers: {lab.bootstrap_servers}")
    if lab.plan.secure:
        lines.append(f"SASL_SSL, SCRAM-SHA-512, user {lab.client_config['sasl_plain_username']}")
    return lines


def _in_short(lab: "Lab", found: "Survey | None") -> str:
    running = sum(broker.state == "running" for broker in lab.brokers)
    return f"{running} of {len(lab.brokers)} brokers running" + ("" if found or not running else ", none responds")


def _state(broker: "BrokerInfo", found: "Survey | None") -> str:
    """Return the state of a broker; "fenced" if it runs but the controller has fenced it."""
    fenced = found is not None and broker.state == "running" and broker.id not in found.unfenced
    return "fenced" if fenced else broker.state


def _health(lab: "Lab", found: "Survey | None") -> Iterator[str]:
    if found is not None:
        topics = f"{found.topics} {'topic' if found.topics == 1 else 'topics'}"
        missing = [
            f"{found.without_leader} without a leader" if found.without_leader else "",
            f"{found.not_in_sync} with replicas that are not in sync" if found.not_in_sync else "",
        ]
        said = ", ".join(part for part in missing if part) or "all in sync"
        yield f"{found.partitions} partitions of {topics}: {said}"
    if any(broker.state != "running" for broker in lab.brokers):
        missing_majority = majority_note(lab)
        if missing_majority:
            yield missing_majority.removeprefix("note: ")
        yield f"to start stopped brokers: quorate cluster up{option_for(lab)}"


def next_lines(lab: "Lab") -> list[str]:
    """Return suggestions for a lab that has just started."""
    name = option_for(lab)
    address = lab.brokers[0].address
    moved = lab.brokers[min(1, len(lab.brokers) - 1)]
    elsewhere = [broker.rack for broker in lab.brokers if broker.rack not in (None, moved.rack)]
    rack = elsewhere[-1] if elsewhere else "z"
    secure = ""
    commands: list[tuple[str, str]] = []
    if lab.plan.secure:
        config = lab.client_config
        commands = [
            (f"quorate cluster certificate{name} > ca.pem", "the CA certificate for clients"),
            (
                f"export QUORATE_SASL_USERNAME={config['sasl_plain_username']} "
                f"QUORATE_SASL_PASSWORD={config['sasl_plain_password']}",
                "",
            ),
        ]
        secure = f" --security-protocol SASL_SSL --sasl-mechanism {config['sasl_mechanism']} --ssl-cafile ca.pem"
    commands += [
        (f"quorate decode -b {address}{secure} --follow", "what the group coordinators write"),
        (f"quorate cluster restart-broker {moved.id} --rack {rack}{name}", "move a broker to another rack"),
        (f"quorate cluster status{name}", "leaders and group coordinators"),
        (f"quorate cluster down{name}", "remove it, with its data"),
    ]
    lines = ["", *next_steps([(command, remark if len(command) < LONG else "") for command, remark in commands])]
    client_rack = lab.brokers[0].rack or "a"
    arguments = f'"orders", bootstrap_servers="{address}", client_rack="{client_rack}", group_id="g"'
    client = f"KafkaConsumer({arguments})"
    if lab.plan.secure:
        client = f"{type(lab).__name__}.attach({lab.lab_name!r}).client_config"
    lines.append(f"In Python: {client}")
    return lines


def status_json(lab: "Lab", found: "Survey | None") -> str:
    """Return all facts about a lab as a JSON object."""
    security = {
        name: value for name, value in lab.client_config.items() if name not in ("bootstrap_servers", "ssl_cafile")
    }
    plain: dict[str, Any] = {
        "name": lab.lab_name,
        "cluster_id": lab.plan.cluster_id,
        "version": lab.version,
        "image": lab.image,
        "bootstrap_servers": lab.bootstrap_servers,
        "security": security | {"certificate": lab.certificate} if security else None,
        "answers": found is not None,
        "controller": found.controller if found else None,
        "brokers": [
            {
                "id": broker.id,
                "rack": broker.rack,
                "address": broker.address,
                "version": broker.version,
                "state": _state(broker, found),
                "leads": found.leads.get(broker.id, 0) if found else None,
                "coordinates": found.coordinates.get(broker.id, 0) if found else None,
            }
            for broker in lab.brokers
        ],
        "topics": found.topics if found else None,
        "partitions": found.partitions if found else None,
        "without_leader": found.without_leader if found else None,
        "not_in_sync": found.not_in_sync if found else None,
    }
    return json_text(plain)


def list_lines(labs: Mapping[str, "Lab | None"], ended: Collection[str] = ()) -> list[str]:
    """Return a row for each lab; only the name of one that cannot be read.

    `ended` are the embedded labs whose process has ended.
    """
    if not labs:
        return []
    rows = [("name", "version", "brokers", "bootstrap servers")]
    for name, lab in labs.items():
        if lab is None and name in ended:
            rows.append((name, "", "", f"its process has ended; to start it again: quorate cluster up --name {name}"))
        elif lab is None:
            rows.append((name, "", "", f"incomplete; to remove it: quorate cluster down --name {name}"))
        else:
            running = sum(broker.state == "running" for broker in lab.brokers)
            rows.append((name, lab.version, f"{running} of {len(lab.brokers)} running", lab.bootstrap_servers))
    return table_lines(rows)


def list_json(labs: Mapping[str, "Lab | None"]) -> str:
    """Return a JSON array with an object for each lab."""
    return json_text(
        [
            {
                "name": name,
                "version": lab.version if lab else None,
                "brokers": {broker.id: broker.state for broker in lab.brokers} if lab else None,
                "bootstrap_servers": lab.bootstrap_servers if lab else None,
            }
            for name, lab in labs.items()
        ]
    )
