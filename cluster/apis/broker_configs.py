"""What settings brokers may be given while they run (KIP-226): not all may change, some only for one broker, and some only together with others."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from quorate.cluster.broker_settings import BrokerSetting, UpdateMode, setting_named
from quorate.cluster.config_relations import broker_problem
from quorate.cluster.settings import ALL
from quorate.cluster.topic_settings import Release
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.core import ClusterCore

__all__ = ["broker_config", "check_broker_settings"]

_MIN_IN_SYNC = "min.insync.replicas"
_THREADS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
"""How many there are may at most double, or be halved."""


def broker_config(cluster: "ClusterCore", broker: int | None) -> dict[str, str]:
    """What the controller keeps for a broker, or for `ALL`: what was changed, and with eligible leader replicas (KIP-966) how many replicas have to be in sync."""
    kept = dict(cluster.settings.changed.get(broker, {}))
    if broker is ALL and has_eligible_leaders(cluster):
        kept.setdefault(_MIN_IN_SYNC, cluster.settings.get(_MIN_IN_SYNC))
    return kept


def has_eligible_leaders(cluster: "ClusterCore") -> bool:
    """Whether the controller looks after eligible leader replicas (KIP-966)."""
    return cluster.features.get("eligible.leader.replicas.version", 0) > 0


def check_broker_settings(
    by: "Broker", broker: int | None, settings: Mapping[str, str | None], *, asked: Collection[str]
) -> None:
    """Raises `ApiError` for settings that a broker, or all of them (`ALL`), cannot be given while they run.

    `by`: the broker that is asked, which checks what they would be for itself. `asked`: what the request names of them.
    """
    cluster = by.cluster
    release = cluster.settings.release
    known = {name: setting_named(release, name) for name in settings}
    _check_who(broker, known)
    for name, value in settings.items():
        if value is not None and (problem := known[name].problem(value)):
            raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    values = {name: value for name, value in settings.items() if value is not None}
    _check_listeners(cluster, broker, values)
    _check_together(by, broker, release, values)
    if has_eligible_leaders(cluster):
        if broker is not ALL and _MIN_IN_SYNC in asked:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{_MIN_IN_SYNC} is the same for all brokers")
        if broker is ALL and _MIN_IN_SYNC not in settings:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{_MIN_IN_SYNC} cannot be taken back")


def _check_who(broker: int | None, known: Mapping[str, BrokerSetting]) -> None:
    fixed = [name for name, one in known.items() if one.change is UpdateMode.NOBODY]
    if fixed:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{', '.join(fixed)} cannot change while brokers run")
    of_listeners = [name for name, one in known.items() if one.change is UpdateMode.LISTENER]
    if of_listeners:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{', '.join(of_listeners)} can only change for one listener: listener.name.NAME.{of_listeners[0]}",
        )
    of_one = [name for name, one in known.items() if one.change is UpdateMode.BROKER]
    if of_one and broker is ALL:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{', '.join(of_one)} can only change for one broker, by its id")


def _check_listeners(cluster: "ClusterCore", broker: int | None, settings: Mapping[str, str]) -> None:
    """The addresses of an embedded broker are its owner's affair: what names others is refused, as Kafka refuses listeners that do not fit together."""
    for name in settings.keys() & {"advertised.listeners", "listener.security.protocol.map", "listeners"}:
        if settings[name] != cluster.settings.changed.get(broker, {}).get(name):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} of a broker here cannot change while it runs")


def _check_together(by: "Broker", broker: int | None, release: Release, settings: Mapping[str, str]) -> None:
    known = by.cluster.settings
    own = known.changed.get(by.id, {}) if broker is ALL else {}

    def now(name: str) -> str | None:
        return known.effective(name, by.id)

    def then(name: str) -> str | None:
        return settings[name] if name in settings and name not in own else now(name)

    for name in settings.keys() & set(_THREADS):
        was, wanted = int(now(name) or 0), int(settings[name])
        if not was // 2 <= wanted <= was * 2:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"{name} cannot be {wanted}: from {was // 2} to {was * 2}, as it is {was}"
            )
    if int(then("max.connections") or 0) == 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "max.connections cannot be 0")
    if problem := broker_problem(release, then):
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
