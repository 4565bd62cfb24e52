"""Run checks against a cluster, and compare its responses with recordings of real brokers."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from uuid import uuid4

from quorate.cluster.errors import ClusterError
from quorate.codecs import QuorateError
from quorate.codecs.releases import NAMES, KafkaVersion, last_versions
from quorate.integration.verify.check import Check
from quorate.integration.verify.checks import SUITES
from quorate.integration.verify.random_requests import random_check, recorded_on_embedded
from quorate.integration.verify.recorder import Run
from quorate.integration.verify.recordings import recorded_releases, recordings_of
from quorate.integration.verify.session import CheckStep
from quorate.integration.verify.target import NotSupportedError, VerifyTarget

_PREFIX = re.compile(r"[a-zA-Z0-9._-]{0,200}")
"""Prefixes of names of topics, of up to 249 characters."""


class CheckOutcome(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    DIFFERS = "differs"
    NOT_SUPPORTED = "not supported"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check. `detail`: the difference, or what is not supported.

    `apis`: the APIs of the requests that were sent.
    """

    suite: str
    check: Check
    outcome: CheckOutcome
    detail: str = ""
    apis: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """All results.

    `release`: whose recordings were compared. `missing`: APIs that the broker lacks. `left`:
    topics and groups that could not be removed.
    """

    release: KafkaVersion
    results: Sequence[CheckResult]
    missing: Sequence[str] = ()
    left: Sequence[str] = ()

    def count(self, outcome: CheckOutcome) -> int:
        """Return how many checks have an outcome."""
        return sum(result.outcome is outcome for result in self.results)


def selected(suites: Sequence[str] = (), names: Sequence[str] = ()) -> list[tuple[str, Check]]:
    """Return the checks of suites, all by default, or those with the given names.

    Raises `ClusterError` for a name that does not exist.
    """
    unknown = [suite for suite in suites if suite not in SUITES]
    if unknown:
        raise ClusterError(f"there is no suite {unknown[0]}", f"suites are {', '.join(SUITES)}")
    every = [(suite, check) for suite, checks in SUITES.items() for check in checks]
    known = {check.name for _, check in every}
    if missing := [name for name in names if name not in known]:
        raise ClusterError(f"there is no check {missing[0]}", "`quorate verify --list` lists them")
    return [
        (suite, check)
        for suite, check in every
        if (not suites or suite in suites) and (not names or check.name in names)
    ]


def verify(
    bootstrap_servers: str,
    config: Mapping[str, Any] | None = None,
    *,
    release: KafkaVersion | None = None,
    suites: Sequence[str] = (),
    names: Sequence[str] = (),
    random: Sequence[int] = (),
    prefix: str = "quorate-verify-",
    connect_timeout_ms: int = 10_000,
    progress: Callable[[CheckResult], None] = lambda result: None,
) -> VerifyReport:
    """Compare a cluster with real brokers of a release.

    `config`: kafka-python's configs of TLS and SASL. `release`: a recorded one; by default the one
    whose API versions the broker reports, else the newest. `suites`, `names`: which checks, all by
    default. `random`: seeds of random requests, for which an embedded cluster of the release is the
    reference. `prefix`: of all topics, groups and transactional ids; topics and groups are deleted
    at the end. `connect_timeout_ms`: see `VerifyTarget`. `progress`: called with each result.

    Raises `ClusterError` if the cluster cannot be reached, for an unknown release or name, for a
    prefix that a topic cannot have, and if the release has none of the checks.
    """
    if not _PREFIX.fullmatch(prefix):
        raise ClusterError(
            f"prefix {prefix!r}: a topic cannot be named so", "use up to 200 letters, digits, and the characters . _ -"
        )
    checks = selected(suites, names)
    run_prefix = f"{prefix}{uuid4().hex[:8]}-"
    target = VerifyTarget(bootstrap_servers, config, prefix=run_prefix, connect_timeout_ms=connect_timeout_ms)
    left: list[str] | None = None
    try:
        release = release_of(target) if release is None else _recorded(release)
        recording = recordings_of(release)
        run = Run(target, run_prefix)
        results = []
        scripts = [(suite, check, recording.get(check.name, ())) for suite, check in checks]
        scripts += [("random", check, recorded_on_embedded(check, release)) for check in map(random_check, random)]
        scripts = [script for script in scripts if script[-1]]  # others need what the release does not have
        if not scripts:
            raise ClusterError(f"Kafka {release} has none of these checks", "select others, or a newer release")
        for suite, check, expected in scripts:
            result = _result(run, suite, check, expected)
            if result.outcome is CheckOutcome.DIFFERS and not target.is_reachable():
                ended = f"the broker does not respond any more; before: {result.detail}"
                result = replace(result, detail=ended)
            results.append(result)
            progress(result)
            if not target.is_reachable():
                break
        missing = _missing_apis(target, release)
        left = target.clean() if target.is_reachable() else [f"topics and groups with {run_prefix}"]
        return VerifyReport(release=release, results=results, missing=missing, left=left)
    finally:
        if left is None and target.is_reachable():  # also after Ctrl-C
            target.clean()
        target.close()


def _result(run: Run, suite: str, check: Check, expected: Sequence[CheckStep]) -> CheckResult:
    session = run.session(expected)
    outcome, detail = CheckOutcome.PASSED, ""
    try:
        check.script(session)
    except NotSupportedError as error:
        outcome, detail = CheckOutcome.NOT_SUPPORTED, str(error)
    except (QuorateError, OSError) as error:
        outcome, detail = CheckOutcome.DIFFERS, str(error)
    except (AttributeError, IndexError, TypeError) as error:
        # A response without the fields that the script continues with; only an uncompared one.
        outcome, detail = CheckOutcome.DIFFERS, f"unexpected response before the compared ones ({error})"
    else:
        if len(session.steps) < len(expected):
            outcome, detail = CheckOutcome.DIFFERS, f"{len(session.steps)} of {len(expected)} responses"
    finally:
        session.close()
    apis = tuple(dict.fromkeys(step.api for step in session.steps))
    return CheckResult(suite=suite, check=check, outcome=outcome, detail=detail, apis=apis)


def release_of(target: VerifyTarget) -> KafkaVersion:
    """Return the recorded release with the API versions of the broker, else the newest."""
    releases = recorded_releases()
    reported = {key: versions[-1] for key, versions in target.versions.items()}
    for release in reversed(releases):
        known = last_versions(release)
        if all(known.get(key) == last for key, last in reported.items() if key in known):
            return release
    return releases[-1]


def _recorded(release: KafkaVersion) -> KafkaVersion:
    releases = recorded_releases()
    for known in releases:
        if release in (known, known.line):
            return known
    raise ClusterError(f"Kafka {release} was not recorded", f"recorded are {', '.join(map(str, releases))}")


def _missing_apis(target: VerifyTarget, release: KafkaVersion) -> list[str]:
    known = last_versions(release)
    return [NAMES[key] for key in sorted(known) if key not in target.versions]
