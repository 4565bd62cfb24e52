"""Assignors need no Kafka client, and each adapter only its own."""

import subprocess
import sys


def run(code):
    return subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300
    )


def test_assignors_need_no_client():
    ended = run(
        "import sys, quorate.assignors, quorate.assignors.adapters, quorate.assignors.sticky, quorate.assignors.range;"
        "print([name for name in sys.modules if name.partition('.')[0] in ('kafka', 'aiokafka')])"
    )
    assert ended.stdout.strip() == "[]", ended.stderr


def test_each_adapter_works_without_the_other_client():
    ended = run(
        "import sys; sys.modules['aiokafka'] = None; from quorate.assignors.adapters import kafka_python; print('ok')"
    )
    assert ended.stdout.strip() == "ok", ended.stderr
    ended = run("import sys; sys.modules['kafka'] = None; from quorate.assignors.adapters import aiokafka; print('ok')")
    assert ended.stdout.strip() == "ok", ended.stderr


def test_a_missing_client_is_named_with_the_extra():
    ended = run("import sys; sys.modules['aiokafka'] = None; from quorate.assignors.adapters import aiokafka")
    assert "ImportError: this adapter needs aiokafka 0.14 or newer: pip install 'quorate[aiokafka]'" in ended.stderr
    ended = run("import sys; sys.modules['kafka'] = None; from quorate.assignors.adapters import kafka_python")
    assert "ImportError: this adapter needs kafka-python 3.0 or newer" in ended.stderr
