"""Commands that list groups of logs keep freed memory; other processes are left as they are."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

LOG = Path(__file__).parents[1] / "data" / "captures" / "upgrade-4.0-to-4.3-and-back"

FAULTS = """
import contextlib, io, resource, sys
from quorate.cli.main import main

with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(sys.argv[1:])

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        [bytes([1]) * (8 << 20) for _ in range(10)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(faults())
"""


def page_faults(*arguments: object) -> int:
    """Return the page faults of a process that ran a command, and allocates 80 MB three times."""
    command = [sys.executable, "-P", "-c", FAULTS, *map(str, arguments)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these options")
def test_memory_is_kept_by_a_list_of_groups():
    pages = (80 << 20) // 4096
    assert page_faults("records") > pages
    assert page_faults("groups", "list", LOG) < pages // 10
