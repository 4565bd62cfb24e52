"""`quorate verify-client`: run a client in scenarios, and judge the requests that it sends.

This module has options and output; `quorate.integration.verify_client` has scenarios and rules.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorate.cli.errors import UserError, note
from quorate.cli.output import json_text
from quorate.cli.subcommands import FiniteRange
from quorate.cli.verdicts import echo_rule, echo_verdict, junit_option, show_counts, write_junit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quorate.integration.verify_client import ClientReport, RuleResult

HELP = """Run a consumer or producer, in any language, on embedded clusters where something goes wrong, and judge it.

COMMAND starts the client, which has to run until SIGTERM. Consumers subscribe to {topic} as members of {group}, from
the earliest offset; producers write to {topic}. The command is run once for each scenario: a coordinator moves, a
member is fenced, responses are late or lost. Rules judge the requests that arrive: heartbeats in time, no commit with
an old epoch, sequence numbers without a gap. The exit status is 1 if a rule is broken.

Placeholders in COMMAND, and environment variables with the same values:

\b
{bootstrap}          QUORATE_BOOTSTRAP          addresses of the brokers
{topic}              QUORATE_TOPIC              topic to consume or produce
{group}              QUORATE_GROUP              group.id
{client_id}          QUORATE_CLIENT_ID          client.id: another one for each program
{transactional_id}   QUORATE_TRANSACTIONAL_ID   transactional.id
{instance}           QUORATE_INSTANCE           number of the program, 1 or 2
{rack}               QUORATE_RACK               client.rack
{callback_ms}        QUORATE_CALLBACK_MS        how long to stay in the callback that revokes partitions
{scenario}           QUORATE_SCENARIO           name of the scenario

\b
quorate verify-client -- ./my-consumer --brokers {bootstrap} --topic {topic} --group {group}
quorate verify-client --scenario fenced-member -- ./my-consumer
quorate verify-client --client aiokafka                    one of the included clients
quorate verify-client --junit results.xml -- ./my-client   for CI systems
quorate verify-client --list                               the scenarios, and the rules with their sources
"""


@click.command("verify-client", help=HELP)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--client", metavar="NAME", help="Run an included client instead of COMMAND; --list names them.")
@click.option("--scenario", "scenarios", multiple=True, metavar="NAME", help="Only this scenario. May be repeated.")
@click.option("--rule", "rules", multiple=True, metavar="NAME", help="Only this rule. May be repeated.")
@click.option("--kafka-version", metavar="VERSION", help="Release of the brokers.  [default: the newest]")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=2, show_default=True, metavar="N", help="Scenarios at a time."
)
@click.option(
    "--start-timeout",
    type=FiniteRange(min=1),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How long the client may take until it consumes or produces.",
)
@click.option(
    "--close-timeout",
    type=FiniteRange(min=1),
    default=15,
    show_default=True,
    metavar="SECONDS",
    help="How long it may take to end after SIGTERM; then it is killed.",
)
@junit_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--list", "list_only", is_flag=True, help="List scenarios, rules and included clients.")
@click.pass_context
def verify_client(
    ctx: click.Context,
    /,
    command: tuple[str, ...],
    client: str | None,
    scenarios: tuple[str, ...],
    rules: tuple[str, ...],
    kafka_version: str | None,
    jobs: int,
    start_timeout: float,
    close_timeout: float,
    junit: Path | None,
    as_json: bool,
    list_only: bool,
) -> None:
    """Verify a client."""
    from quorate.cluster.errors import ClusterError
    from quorate.coordinator.config import ConfigError
    from quorate.integration.verify_client import ClientLimits, RuleOutcome, client_report_json, client_report_junit
    from quorate.integration.verify_client import verify_client as run

    if list_only:
        _list(as_json)
        return
    try:
        report = run(
            _command(ctx, command, client),
            scenarios=scenarios,
            rules=rules,
            limits=ClientLimits(start_s=start_timeout, close_s=close_timeout),
            jobs=jobs,
            version=kafka_version,
            progress=_show_progress,
        )
    except (ClusterError, ConfigError) as error:
        raise UserError(getattr(error, "message", str(error)), *getattr(error, "remedy", ())) from None
    write_junit(junit, lambda: client_report_junit(report))
    if as_json:
        click.echo(json_text(client_report_json(report)))
    else:
        _show(report)
    if report.count(RuleOutcome.DIFFERS):
        ctx.exit(1)


def _command(ctx: click.Context, command: tuple[str, ...], client: str | None) -> "Sequence[str]":
    from quorate.integration.verify_client.clients import CLIENTS, client_command, missing_package

    if client is None:
        if not command:
            raise click.UsageError("write the command that starts the client after --, or use --client", ctx)
        return command
    if command:
        raise click.UsageError("use either --client or a command", ctx)
    if client not in CLIENTS:
        raise UserError(f"there is no included client {client}", f"included are {', '.join(CLIENTS)}")
    package = missing_package(client)
    if package is not None:
        raise UserError(f"--client {client} needs a package that is not installed", f"pip install '{package}'")
    return client_command(client)


def _list(as_json: bool) -> None:
    from quorate.integration.verify_client import RULES, SCENARIOS
    from quorate.integration.verify_client.clients import CLIENTS

    rules = [(suite, rule) for suite, those in RULES.items() for rule in those]
    if as_json:
        facts = {
            "scenarios": [
                {"scenario": one.name, "says": one.says, "kinds": sorted(one.kinds)} for one in SCENARIOS.values()
            ],
            "rules": [
                {"suite": suite, "rule": one.name, "says": one.rule, "source": one.source} for suite, one in rules
            ],
            "clients": list(CLIENTS),
        }
        click.echo(json_text(facts))
        return
    for scenario in SCENARIOS.values():
        click.echo(f"{click.style(scenario.name, bold=True)}  scenario\n  {scenario.says}")
    for suite, rule in rules:
        echo_rule(rule.name, suite, rule.source, rule.rule)
    click.echo(f"Included clients: {', '.join(CLIENTS)}")


def _show_progress(scenario: str, problems: int) -> None:
    note(f"{scenario}: {f'{problems} problems' if problems else 'ok'}")


def _show(report: "ClientReport") -> None:
    from quorate.integration.verify_client import RuleOutcome

    for result in report.results:
        if result.outcome is RuleOutcome.DIFFERS:
            _show_result(result)
    unseen = [result.rule.name for result in report.results if result.outcome is RuleOutcome.NOT_SEEN]
    click.echo(f"A {' and '.join(report.kinds)}, in {len(report.scenarios)} scenarios")
    show_counts(RuleOutcome, ((result.suite, result.outcome) for result in report.results))
    if unseen:
        click.echo(f"Not seen: {', '.join(unseen)}")


def _show_result(result: "RuleResult") -> None:
    rule = result.rule
    broken = ", ".join(f"{scenario} ({count})" for scenario, count in result.broken.items())
    echo_verdict(str(result.outcome), result.suite, rule.name, rule.rule, rule.source, f"in {broken}")
    for line in result.requests:
        click.echo("\n".join(f"    {part}" for part in line.splitlines()))
