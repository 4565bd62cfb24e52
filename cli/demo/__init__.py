"""`quorate demo`: an embedded cluster with racks, real consumers, and what happens to them; then what an upgrade of real brokers wrote.

Nothing is made up: what is told was seen while it happened (`quorate.integration.play`), or is
computed from a recorded log (`recording`).
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorate.cli.demo.recording import called, comparison, decode, packaged
from quorate.cli.errors import UserError
from quorate.cli.output import echo_lines, next_steps
from quorate.cli.subcommands import Commands
from quorate.codecs.takeovers import stories

if TYPE_CHECKING:
    from quorate.integration.play import Play

__all__ = ["demo"]

HELP = """See what quorate is about, in a few seconds, without Java.

A Kafka cluster with three racks runs in this process, with consumers in each of them; then a broker moves to another rack, the topic grows, a consumer ends.
Shown is who owns which partition and from which rack it is read. Last comes what an upgrade of real brokers wrote.

\b
quorate demo           as above; a page with the timeline is written, too
quorate demo decode    the recorded upgrade, record by record
"""


@click.group(cls=Commands, help=HELP, invoke_without_command=True)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    default="quorate-demo.html",
    show_default=True,
    metavar="FILE",
    help="Write the timeline to this page.",
)
@click.pass_context
def demo(ctx: click.Context, html: Path) -> None:
    """Play, tell, write the page."""
    if ctx.invoked_subcommand is not None:
        return
    from kafka.errors import KafkaError

    from quorate.cli.demo.html import page
    from quorate.cli.demo.show import showing
    from quorate.integration.play import Play

    if not html.parent.is_dir():
        raise UserError(f"--html {html}: there is no folder {html.parent}", "name a file in a folder that is there")
    with showing() as show, _quiet():
        play = Play(show)
        try:
            play.run()
        except (TimeoutError, KafkaError) as error:
            told = str(error) or type(error).__name__
            raise UserError(f"the demo got stuck: {told}", "on a machine that is very busy, try again") from None
    echo_lines(_upgrade(len(play.chapters) + 1))
    summary = _summary(play)
    html.write_text(page(play, summary), encoding="utf-8")
    click.secho(summary, bold=True)
    click.echo(f"timeline: {html}")
    click.echo()
    name = called()
    commands = (
        (f"{name} demo decode", "the recorded upgrade, record by record"),
        (f"{name} serve --racks a,b,c", "such a cluster for your own clients, in any language"),
        (f"{name} groups list -b localhost:9092", "the groups of any cluster"),
    )
    echo_lines(next_steps(commands))
    if play.lost or play.failures:
        raise UserError(f"{play.lost} messages were lost; {'; '.join(play.failures)}".rstrip("; "))


@contextmanager
def _quiet() -> Iterator[None]:
    """kafka-python logs that brokers restart, which is what is shown here."""
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
        f"{play.sent:,} messages were sent and {len(play.seen):,} consumed{twice}; "
        f"{moves} partitions changed hands; {play.now_s:.1f} s, all in this process"
    )


def _upgrade(number: int) -> Iterator[str]:
    """What the recorded upgrade did to groups, in short."""
    about, entries = packaged()
    releases = about["kafka_versions"]
    before, after = releases[:2]
    yield click.style(
        f"{number}. What an upgrade does to groups: Kafka {' → '.join(releases)}, recorded on real brokers", bold=True
    )
    told = list(stories(entries))
    for line in comparison(told, before, after):
        yield f"   {line}"
    moved = [
        story.group_id for story in told if story.up.reassigned or (story.down is not None and story.down.reassigned)
    ]
    who = f"{', '.join(moved)} were given other partitions" if moved else "no member was given other partitions"
    yield f"   {click.style('→', fg='cyan', bold=True)} {len(entries):,} records of __consumer_offsets decoded; epochs go up, and {who}"
    yield ""


demo.add_command(decode)
