"""`quorate verify`: compare a broker with Apache Kafka.

This module has options and output; `quorate.integration.verify` has the checks.
"""

from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.connection import WithConnection, connection_config, connection_options, servers_option
from quorate.cli.errors import UserError
from quorate.cli.output import json_text
from quorate.cli.verdicts import echo_rule, echo_verdict, junit_option, show_counts, write_junit

if TYPE_CHECKING:
    from quorate.integration.verify import CheckResult, VerifyReport

HELP = """Compare a broker, or anything that speaks Kafka's protocol, with real brokers of Apache Kafka.

Each check sends a few requests that show one rule of the protocol, and compares the responses with recordings of real
brokers. Topics, groups and transactional ids get a prefix; topics and groups are removed at the end. Nothing else of
the cluster is changed. The exit status is 1 if a response differs.

\b
quorate verify -b localhost:9092
quorate verify -b localhost:9092 --suite groups --suite offsets
quorate verify -b localhost:9092 --random 20 --seed 7     also 20 random sequences of requests
quorate verify -b localhost:9092 --junit results.xml      for CI systems
quorate verify --list                                     the checks, with their rules and sources
"""


@click.command(cls=WithConnection, help=HELP)
@servers_option("The cluster to verify.")
@click.option("--suite", "suites", multiple=True, metavar="NAME", help="Only this suite. May be repeated.")
@click.option("--check", "names", multiple=True, metavar="NAME", help="Only this check. May be repeated.")
@click.option(
    "--kafka-version",
    metavar="VERSION",
    help="Release to compare with.  [default: the one whose API versions the broker has, else the newest]",
)
@click.option("--random", "sequences", type=click.IntRange(min=0), default=0, help="Number of random sequences.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the first sequence.  [default: a random one]")
@click.option("--prefix", default="quorate-verify-", show_default=True, help="Prefix of everything that is created.")
@junit_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--list", "list_only", is_flag=True, help="List the checks, and send nothing.")
@connection_options
@click.pass_context
def verify(ctx: click.Context, /, as_json: bool, list_only: bool, junit: Path | None, **options: Any) -> None:
    """Verify a cluster."""
    from quorate.cluster.errors import ClusterError
    from quorate.integration.verify import CheckOutcome, report_json, report_junit
    from quorate.integration.verify import verify as run

    try:
        if list_only:
            _list_checks(options["suites"], options["names"], as_json)
            return
        if options["bootstrap_servers"] is None:
            raise click.UsageError("name the cluster: -b HOST:PORT", ctx)
        seed = SystemRandom().randrange(1 << 30) if options["seed"] is None else options["seed"]
        report = run(
            options["bootstrap_servers"],
            connection_config(options),
            release=_release(options["kafka_version"]),
            suites=options["suites"],
            names=options["names"],
            random=range(seed, seed + options["sequences"]),
            prefix=options["prefix"],
            connect_timeout_ms=options["connect_timeout_ms"],
            progress=_show if not as_json else lambda result: None,
        )
    except ClusterError as error:
        raise UserError(error.message, *error.remedy) from None
    write_junit(junit, lambda: report_junit(report))
    if as_json:
        click.echo(json_text(report_json(report)))
    else:
        _show_summary(report)
    if report.count(CheckOutcome.DIFFERS):
        ctx.exit(1)


def _release(text: str | None) -> Any:
    from quorate.codecs.releases import KafkaVersion

    if text is None:
        return None
    try:
        return KafkaVersion.parse(text)
    except ValueError as error:
        raise UserError(str(error)) from None


def _list_checks(suites: Sequence[str], names: Sequence[str], as_json: bool) -> None:
    from quorate.integration.verify import selected

    checks = selected(suites, names)
    if as_json:
        facts = [{"suite": suite, "check": c.name, "rule": c.rule, "source": c.source} for suite, c in checks]
        click.echo(json_text(facts))
        return
    for suite, check in checks:
        echo_rule(check.name, suite, check.source, check.rule)


def _show(result: "CheckResult") -> None:
    """Print a check that did not pass; passed ones are only counted."""
    from quorate.integration.verify import CheckOutcome

    if result.outcome is CheckOutcome.PASSED:
        return
    check = result.check
    echo_verdict(str(result.outcome), result.suite, check.name, check.rule, check.source, result.detail)


def _show_summary(report: "VerifyReport") -> None:
    from quorate.integration.verify import CheckOutcome

    click.echo(f"Compared with Kafka {report.release}")
    show_counts(CheckOutcome, ((result.suite, result.outcome) for result in report.results))
    if report.missing:
        click.echo(f"APIs that the broker does not have: {', '.join(report.missing)}")
    if report.left:
        click.echo(f"Could not be removed: {', '.join(report.left)}")
