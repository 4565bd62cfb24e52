"""Write codecs/configs.tsv, the configs of each release of Kafka, from Kafka's own classes.

    tests/releases/build && .venv/bin/python scripts/make_configs.py

The configs are those of brokers, topics, groups and client metrics. The first command fetches the
jars of every release in `quorate.codecs.releases`. tests/codecs/test_configs.py compares the table
with these classes.
"""

import re
import subprocess
import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
FILE = HERE.parent / "codecs" / "configs.tsv"
CLASS_PATHS = HERE.parent / "tests" / "releases" / "target"
HEAD = """\
# Configs by release, from Kafka's own classes; written by scripts/make_configs.py. \\N: no default.
# update: how a broker's config can be updated (KIP-226): read-only, cluster-wide, per broker, or per listener.
# valid: bounds of a number, and one other valid number; or the valid words of a text or of list elements.
#   ~: in any case; +: must not be empty; *: may be empty; with + or * a list has no empty elements.
# synonyms: configs of brokers used if this one is not set, in order of priority, with the factor between their units.
# internal: listed only if it is set.
resource\tname\ttype\tupdate\tdefault\tvalid\tsynonyms\tinternal\tsince\tuntil
"""
Facts = tuple[str, ...]


def compile_into(folder: Path, class_path: str) -> None:
    """Compile Configs.java, which then runs with the jars of any release."""
    command = ["javac", "-J-XX:TieredStopAtLevel=1", "-d", str(folder), "-cp", class_path, str(HERE / "Configs.java")]
    subprocess.run(command, check=True, timeout=240)


def rows_of(class_path: str, classes: Path) -> dict[tuple[str, str], Facts]:
    """Return resource and name → type, update mode, default, valid values, synonyms, internal.

    `classes`: the folder with the compiled Configs.java.
    """
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]  # half the CPU time
    command = ["java", *quick, "-cp", f"{classes}:{class_path}", "Configs"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240).stdout
    found = {}
    for line in printed.splitlines():
        resource, name, kind, update, default, check, synonyms, internal = line.split("\t")
        found[resource, name] = (kind.lower(), update, default, valid(check), synonyms, internal)
    return found


def valid(check: str) -> str:
    """Convert Kafka's description of valid values to the form of the table.

    `[1,...,9] or -1` → `1..9|-1`; `[compact, delete]` → `compact|delete`; `(case insensitive) [A]`
    → `~A`; `non-empty list` → `+`; others → empty.
    """
    if bounds := re.fullmatch(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\](?: or (-?\d+))?", check):
        least, most, also = bounds.groups(default="")
        return f"{least}..{most}" + (f"|{also}" if also else "")
    if words := re.fullmatch(r"(\(case insensitive\) |[+*])?\[([^\]]*)\]", check):
        sign = "~" if (words[1] or "").startswith("(") else words[1] or ""
        found = [word.strip() for word in words[2].split(",")]
        # A metadata version is valid without its last part: 3.9 is the newest of 3.9.
        found += {word.partition("-")[0]: "" for word in found if re.fullmatch(r"[\d.]+-IV\d+", word)}
        return sign + "|".join(dict.fromkeys(found))
    if check in ("non-empty list", "non-empty string"):
        return "+"
    return check if check.startswith("[partitionId]") else ""


def table(releases: Mapping[str, Mapping[tuple[str, str], Facts]]) -> str:
    """Return the table: a line for each range of releases in which a config is the same."""
    lines = []
    for key in sorted({key for known in releases.values() for key in known}):
        runs = [list(run) for _, run in groupby(releases, key=lambda release: releases[release].get(key))]
        for place, run in enumerate(runs):
            facts = releases[run[0]].get(key)
            if facts is not None:
                since = "" if place == 0 else run[0]
                until = "" if place == len(runs) - 1 else runs[place + 1][0]
                lines.append("\t".join((*key, *facts, since, until)))
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    """Read the configs of each release, oldest first, and write the table."""
    paths = {tuple(map(int, path.stem.split("."))): path for path in CLASS_PATHS.glob("*.classpath")}
    if not paths:
        sys.exit(__doc__)
    with TemporaryDirectory() as classes:
        compile_into(Path(classes), paths[min(paths)].read_text())
        rows = {
            f"{version[0]}.{version[1]}": rows_of(path.read_text(), Path(classes))
            for version, path in sorted(paths.items())
        }
    FILE.write_text(table(rows), "utf-8")


if __name__ == "__main__":
    main()
