"""Second attempts of tests with clients (tests/reruns.py)."""

from pathlib import Path

import pytest

from tests import reruns

TESTS = """
import pytest

FAILED = set()

@pytest.mark.parametrize("number", range({failing}))
@pytest.mark.containers
def test_client(number):
    if number not in FAILED:
        FAILED.add(number)
        raise AssertionError(f"client {{number}} has stopped")

def test_ours():
    pass
"""


def run(pytester: pytest.Pytester, failing: int) -> pytest.RunResult:
    pytester.makeconftest(Path(reruns.__file__).read_text())
    pytester.makeini("[pytest]\nmarkers =\n    containers")
    pytester.makepyfile(TESTS.format(failing=failing))
    return pytester.runpytest_subprocess("-p", "no:quorate")


def test_a_first_failure_is_shown_and_passes_the_run(pytester: pytest.Pytester) -> None:
    result = run(pytester, reruns.MOST)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*needed a second attempt*", "*test_client?0?", "E*AssertionError: client 0 has stopped"]
    )


def test_a_second_attempt_has_a_name_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(reruns.__file__).read_text())
    pytester.makeini("[pytest]\nmarkers =\n    containers")
    pytester.makepyfile(
        """
        import pytest
        from conftest import own_name

        @pytest.mark.containers
        @pytest.mark.parametrize("client", ["a"])
        def test_client(client, request):
            assert own_name(request) == "test_client-a-2"
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:quorate")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["E*assert 'test_client-a' == 'test_client-a-2'"])


def test_many_first_failures_fail_the_run(pytester: pytest.Pytester) -> None:
    result = run(pytester, reruns.MOST + 1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["4 tests needed a second attempt, more than 3: the run fails"])


def test_tests_without_containers_have_one_attempt(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(reruns.__file__).read_text())
    pytester.makepyfile("def test_ours():\n    raise AssertionError")
    pytester.runpytest_subprocess("-p", "no:quorate").assert_outcomes(failed=1)


def test_sparks_ten_seconds_do_not_count(pytester: pytest.Pytester) -> None:
    failing = reruns.MOST + 1
    tests = TESTS.format(failing=failing).replace("client {number} has stopped", reruns.TOO_SLOW)
    pytester.makeconftest(Path(reruns.__file__).read_text())
    pytester.mkdir("tests").joinpath("pipeline").mkdir()
    (pytester.path / "tests" / "pipeline" / "test_jobs.py").write_text(tests.replace("@pytest.mark.containers", ""))
    result = pytester.runpytest_subprocess("-p", "no:quorate")
    result.assert_outcomes(passed=failing + 1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*needed a second attempt*", f"E*AssertionError: {reruns.TOO_SLOW}"])
