"""What `quorate.codecs` does without the packages of its `arrow` extra."""

import subprocess
import sys

import pytest

WITHOUT = "import sys; sys.modules['{}'] = None  # as if it were not installed\n"


def python(missing, code):
    command = [sys.executable, "-P", "-c", WITHOUT.format(missing) + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("missing", ["numpy", "pyarrow"])
def test_star_import_leaves_out_what_needs_arrow(missing):
    done = python(missing, "from quorate.codecs import *; print(decode_record, read_log, 'read_tables' in dir())")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip().endswith(" False")


def test_star_import_has_it_where_arrow_is():
    done = python("pandas", "from quorate.codecs import *; print(read_tables, record_schema, decode_columns)")
    assert (done.returncode, done.stderr) == (0, "")


def test_asking_for_it_says_what_to_install():
    done = python("pyarrow", "from quorate.codecs import read_tables")
    assert done.stderr.splitlines()[-1] == "ImportError: read_tables needs pyarrow: pip install 'quorate[arrow]'"
