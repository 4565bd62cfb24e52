"""Writes cluster/broker_settings.tsv, which settings brokers have in each release of Kafka, from Kafka's own classes.

    .venv/bin/python scripts/make_broker_settings.py 3.9=FOLDER 4.0=FOLDER …    every release that the embedded cluster knows, with the folder of its jars

`mvn -f docker/pom.xml -Dkafka.version=4.2.1 -Dlibs=FOLDER package` fetches those of a release. Without arguments it prints where it stands.
"""

import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILE = HERE.parent / "cluster" / "broker_settings.tsv"
HEAD = """\
# Brokers' settings by release, as Kafka's own classes tell them; written by scripts/make_broker_settings.py. \\N: no default.
# change: who may have it changed while brokers run (KIP-226): nobody, all brokers or one, one only, or one of its listeners only.
# allowed: bounds of a number and one number more, or the words that it may be: ~ in any case; + it cannot be empty; * it can; with + and * a list has no empty elements. told: always, or only where it was given.
name\tkind\tchange\tdefault\tallowed\ttold\tsince\tuntil
"""


def rows_of(jars: Path) -> dict[str, tuple[str, ...]]:
    """Each setting's kind, change, default, what is allowed, and when it is told."""
    command = ["java", "-cp", f"{jars}/*", str(HERE / "BrokerSettings.java")]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    found = {}
    for line in told.splitlines():
        name, kind, change, default, check, hidden = line.split("\t")
        found[name] = (kind.lower(), change, default, allowed(check), "given" if hidden else "")
    return found


def allowed(check: str) -> str:
    """`[1,...,9] or -1` → `1..9|-1`; `[compact, delete]` → `compact|delete`; `(case insensitive) [A]` → `~A`; `non-empty list` → `+`; others are left out."""
    if bounds := re.fullmatch(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\](?: or (-?\d+))?", check):
        least, most, also = bounds.groups(default="")
        return f"{least}..{most}" + (f"|{also}" if also else "")
    if words := re.fullmatch(r"(\(case insensitive\) |[+*])?\[([^\]]*)\]", check):
        sign = "~" if (words[1] or "").startswith("(") else words[1] or ""
        return sign + "|".join(word.strip() for word in words[2].split(","))
    if check in ("non-empty list", "non-empty string"):
        return "+"
    return ""


def main() -> None:
    """Ask each release, and write what holds from one to another."""
    if not sys.argv[1:]:
        sys.exit(__doc__)
    releases = {release: rows_of(Path(folder)) for release, _, folder in (each.partition("=") for each in sys.argv[1:])}
    lines = []
    for name in sorted({name for known in releases.values() for name in known}):
        runs = [list(run) for _, run in groupby(releases, key=lambda each: releases[each].get(name))]
        for place, run in enumerate(runs):
            facts = releases[run[0]].get(name)
            if facts is not None:
                since = "" if place == 0 else run[0]
                until = "" if place == len(runs) - 1 else runs[place + 1][0]
                lines.append("\t".join((name, *facts, since, until)))
    FILE.write_text(HEAD + "\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
