"""`quorate demo`: consumers on an embedded cluster with racks, then a recorded upgrade of brokers.

All output is observed while the demo runs (`quorate.integration.play`) or computed from a recorded
log (`recording`).
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorate.cli.demo.recording import command_name, comparison, decode, packaged
from quorate.cli.errors import UserError, check_writable
from quorate.cli.output import echo_lines, next_steps
from quorate.cli.subcommands import Commands
from quorate.codecs.group_upgrades import group_upgrades

if TYPE_CHECKING:
    from quorate.integration.play import Play

__all__ = ["demo"]

HELP = """Show racks, rebalances and an upgrade in a few seconds, without Java.

A Kafka cluster with three racks runs in this process, with a consumer in each rack. Then a broker moves to another
rack, the topic gets more partitions, and a consumer leaves. The others change to the consumer protocol (KIP-848), and
then one of them assigns for the group. The output shows which consumer owns which partition, and from which rack it
reads. The last part is what a recorded upgrade of real brokers wrote.

\b
quorate demo           as above; also writes a page with the timeline
quorate demo decode    the recorded upgrade, record by record
"""


@click.group(cls=Commands, help=HELP, invoke_without_command=True)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    default="quorate-demo.html",
    show_default=True,
    metavar="FILE",
    help="Write the timeline to this HTML page.",
)
@click.pass_context
def demo(ctx: click.Context, html: Path) -> None:
    """Run the demo, print the summary and write the page."""
    if ctx.invoked_subcommand is not None:
        return
    from kafka.errors import KafkaError

    from quorate.cli.demo.html import page
    from quorate.cli.demo.show import live_output
    from quorate.integration.play import Play

    check_writable("--html", html)
    with live_output() as show, _quiet():
        play = Play(show)
        try:
            play.run()
        except (TimeoutError, KafkaError) as error:
            cause = str(error) or type(error).__name__
            raise UserError(f"the demo failed: {cause}", "if the machine was very busy, try again") from None
    echo_lines(_upgrade(len(play.chapters) + 1))
    summary = _summary(play)
    html.write_text(page(play, summary), encoding="utf-8")
    click.secho(summary, bold=True)
    click.echo(f"timeline: {html}")
    click.echo()
    name = command_name()
    commands = (
        (f"{name} demo decode", "the recorded upgrade, record by record"),
        (f"{name} serve --racks a,b,c", "a cluster with racks for your own clients, in any language"),
        (f"{name} groups list -b localhost:9092", "the groups of any cluster"),
    )
    echo_lines(next_steps(commands))
    if play.lost or play.failures:
        raise UserError(f"{play.lost} messages were lost; {'; '.join(play.failures)}".rstrip("; "))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence kafka-python's log, which reports the restarts of brokers during the demo."""
    logger = logging.getLogger("kafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _summary(play: "Play") -> str:
    twice = f", {play.duplicates} of them twice" if play.duplicates else ", none twice"
    moves = len(list(play.moves()))
    return (
        f"{play.sent:,} messages sent, {len(play.seen):,} consumed{twice}; "
        f"{moves} partitions moved to another consumer; {play.now_s:.1f} s in one process"
    )


def _upgrade(number: int) -> Iterator[str]:
    """Return how the recorded upgrade affected groups, in a few lines."""
    about, entries = packaged()
    releases = about["kafka_versions"]
    before, after = releases[:2]
    yield click.style(
        f"{number}. What an upgrade does to groups: Kafka {' → '.join(releases)}, recorded on real brokers", bold=True
    )
    found = list(group_upgrades(entries))
    for line in comparison(found, before, after):
        yield f"   {line}"
    moved = [
        story.group_id for story in found if story.up.reassigned or (story.down is not None and story.down.reassigned)
    ]
    effect = f"members of {', '.join(moved)} got other partitions" if moved else "no partition was reassigned"
    arrow = click.style("→", fg="cyan", bold=True)
    yield f"   {arrow} {len(entries):,} records of __consumer_offsets decoded; epochs increase, and {effect}"
    yield ""


demo.add_command(decode)
