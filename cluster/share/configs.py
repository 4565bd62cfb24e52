"""Configs of share groups: the group's own, or those of the brokers (KIP-932)."""

from collections.abc import Mapping
from re import compile as pattern
from typing import Final

from quorate.cluster.group_configs import GroupConfigs
from quorate.cluster.services import Services
from quorate.cluster.share.store import ShareConfigs

_NUMBERS: Final = ("delivery.count.limit", "record.lock.duration.ms", "partition.max.record.locks")
_DURATION: Final = pattern(r"(?i)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


class ShareGroupConfigs:
    """The configs of all share groups."""

    def __init__(self, services: Services, group_configs: GroupConfigs) -> None:
        self._services = services
        self._group_configs = group_configs
        self._known: dict[str, ShareConfigs] = {}

    def of(self, group_id: str) -> ShareConfigs:
        """Return the configs of a group."""
        known = self._known.get(group_id)
        if known is None:
            known = self._known[group_id] = self._read(self._group_configs.of(group_id))
        return known

    def changed(self) -> None:
        """Read the configs again, because some were changed."""
        self._known.clear()

    def _read(self, own: Mapping[str, str]) -> ShareConfigs:
        numbers = [self._number(name, own.get(f"share.{name}")) for name in _NUMBERS]
        return ShareConfigs(
            delivery_count_limit=numbers[0],
            record_lock_duration_ms=numbers[1],
            partition_max_record_locks=numbers[2],
            renew_acknowledge_enable=own.get("share.renew.acknowledge.enable", "true").strip().lower() == "true",
            isolation_level=own.get("share.isolation.level", "read_uncommitted").strip().lower(),
            auto_offset_reset=own.get("share.auto.offset.reset", "latest").strip().lower(),
        )

    def _number(self, name: str, own: str | None) -> int:
        return self._services.broker_configs.number(f"group.share.{name}") if own is None else int(own)


def duration_ms(text: str) -> int:
    """Return an ISO 8601 duration such as `PT1H30M` in ms."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is not an ISO 8601 duration such as PT1H30M")
    days, hours, minutes, seconds = found.groups()
    total = int(days or 0) * 86_400 + int(hours or 0) * 3_600 + int(minutes or 0) * 60
    return total * 1_000 + int(float(seconds or 0) * 1_000)
