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
from quorate.cli.output import echo_lines, json_text, table_lines

if TYPE_CHECKING:
    from quorate.integration.verify import CheckResult, VerifyReport

__all__ = ["verify"]

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
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write JUnit XML.")
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
            progress=_show if not as_json else lambda result: None,
        )
    except ClusterError as error:
        raise UserError(error.message, *error.remedy) from None
    if junit is not None:
        try:
            junit.write_bytes(report_junit(report))
        except OSError as error:
            raise UserError(f"cannot write {junit}: {error.strerror}") from None
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
        click.echo(f"{click.style(check.name, bold=True)}  {suite}, {check.source}\n  {check.rule}")


def _show(result: "CheckResult") -> None:
    """Print a check that did not pass; passed ones are only counted."""
    from quorate.integration.verify import CheckOutcome

    if result.outcome is CheckOutcome.PASSED:
        return
    colour = "red" if result.outcome is CheckOutcome.DIFFERS else "yellow"
    click.echo(f"{click.style(str(result.outcome), fg=colour)}  {result.suite}: {result.check.name}")
    click.echo(f"  {result.check.rule} ({result.check.source})")
    click.echo(f"  {result.detail}")


def _show_summary(report: "VerifyReport") -> None:
    from quorate.integration.verify import CheckOutcome

    rows = [["SUITE", *(str(outcome).upper() for outcome in CheckOutcome)]]
    for suite in dict.fromkeys(result.suite for result in report.results):
        outcomes = [result.outcome for result in report.results if result.suite == suite]
        rows.append([suite, *(str(outcomes.count(outcome)) for outcome in CheckOutcome)])
    rows.append(["all", *(str(report.count(outcome)) for outcome in CheckOutcome)])
    click.echo(f"Compared with Kafka {report.release}")
    echo_lines(table_lines(rows, right={1, 2, 3}))
    if report.missing:
        click.echo(f"APIs that the broker does not have: {', '.join(report.missing)}")
    if report.left:
        click.echo(f"Could not be removed: {', '.join(report.left)}")
