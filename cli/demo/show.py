"""The output of `quorate demo`: live on a terminal, otherwise chapter by chapter.

`quorate.integration.play` runs the demo.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from quorate.cli.output import columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.integration.play import Chapter, Play, Snapshot


def table_lines(snapshot: "Snapshot") -> list[str]:
    """Return a row for each member: the partitions that it owns, and the racks it reads from."""
    rows = [("member", "rack", "owns", "reads from rack", "consumed")]
    for name, rack in snapshot.member_racks.items():
        owned = sorted(partition for partition, owner in snapshot.owners.items() if owner == name)
        rows.append(
            (
                name,
                rack,
                " ".join(map(str, owned)) or "-",
                _reads(snapshot, rack, owned) or "-",
                f"{snapshot.consumed[name]:,}",
            )
        )
    header, *body = columns(rows, right=(4,))
    return [click.style(header, dim=True), *(_coloured(line) for line in body)]


def _reads(snapshot: "Snapshot", rack: str, owned: list[int]) -> str:
    by_rack: dict[str, list[int]] = {}
    for partition in owned:
        source = snapshot.rack_of_source(partition)
        if source is not None:
            by_rack.setdefault(source, []).append(partition)
    return "; ".join(
        f"{source}: {' '.join(map(str, those))}" + ("" if source == rack else " (remote)")
        for source, those in sorted(by_rack.items(), key=lambda item: (item[0] != rack, item[0]))
    )


def _coloured(line: str) -> str:
    return line.replace("(remote)", click.style("(remote)", fg="yellow"))


def chapter_lines(number: int, chapter: "Chapter", snapshot: "Snapshot | None") -> Iterator[str]:
    """Return a finished chapter: its title, the owners of partitions, and the result."""
    yield click.style(f"{number}. {chapter.title}", bold=True)
    if snapshot is not None and snapshot.owners:
        for line in table_lines(snapshot):
            yield f"   {line}"
    yield f"   {click.style('→', fg='cyan', bold=True)} {chapter.said}"
    yield ""


@contextmanager
def live_output() -> Iterator["Callable[[Play], None]"]:
    """Yield a function that shows the progress of the demo; finished chapters stay visible."""
    printed = 0

    def over(play: "Play") -> list[str]:
        nonlocal printed
        lines: list[str] = []
        while printed < len(play.chapters) and play.chapters[printed].said:
            snapshot = play.snapshots[-1] if play.snapshots else None
            printed += 1
            lines += chapter_lines(printed, play.chapters[printed - 1], snapshot)
        return lines

    if not sys.stdout.isatty():

        def show(play: "Play") -> None:
            for line in over(play):
                click.echo(line)

        yield show
        return

    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def show_live(play: "Play") -> None:
            for line in over(play):
                console.print(Text.from_ansi(line))
            running = [chapter for chapter in play.chapters if not chapter.said]
            lines = [click.style(f"{len(play.chapters)}. {running[0].title} …", bold=True)] if running else []
            if play.snapshots:
                lines += [f"   {line}" for line in table_lines(play.snapshots[-1])]
                lines.append(click.style(f"   {play.now_s:4.1f} s, {play.sent:,} messages sent", dim=True))
            live.update(Group(*map(Text.from_ansi, lines)), refresh=True)

        yield show_live
