"""`quorate.codecs` without the packages of its `arrow` extra."""

import subprocess
import sys

import pytest

WITHOUT = "import sys; sys.modules['{}'] = None  # as if it were not installed\n"


def python(missing, code):
    command = [sys.executable, "-P", "-c", WITHOUT.format(missing) + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("missing", ["numpy", "pyarrow"])
def test_star_import_omits_names_that_need_arrow(missing):
    done = python(missing, "from quorate.codecs import *; print(decode_record, read_log, 'read_tables' in dir())")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip().endswith(" False")


def test_star_import_has_all_names_with_arrow():
    done = python("pandas", "from quorate.codecs import *; print(read_tables, record_schema, decode_columns)")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("missing", ["numpy", "pyarrow"])
def test_import_error_names_the_package_to_install(missing):
    done = python(missing, "from quorate.codecs import decode_record, read_tables")
    assert done.stderr.splitlines()[-1] == f"ImportError: read_tables needs {missing}: pip install 'quorate[arrow]'"


def test_attribute_access_names_the_package_to_install():
    done = python("pyarrow", "import quorate.codecs; quorate.codecs.read_tables('kafka-logs')")
    assert done.stderr.splitlines()[-1] == "ImportError: read_tables needs pyarrow: pip install 'quorate[arrow]'"


def test_all_has_the_available_names():
    names = "['decode_columns', 'read_tables', 'ColumnBlock', 'read_log', 'no_such']"
    code = f"import quorate.codecs; print(*(name in quorate.codecs.__all__ for name in {names}))"
    assert python("pyarrow", code).stdout.split() == ["False", "False", "False", "True", "False"]
    assert python("pandas", code).stdout.split() == ["True", "True", "True", "True", "False"]


def test_unknown_names_raise_the_usual_import_error():
    done = python("pyarrow", "from quorate.codecs import read_table")
    assert "cannot import name 'read_table' from 'quorate.codecs'" in done.stderr.splitlines()[-1]
