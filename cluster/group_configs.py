"""Dynamic configs of groups, as brokers apply them (KIP-848, KIP-932, KIP-1071).

The controller stores what a client sets, which DescribeConfigs returns; coordinators and leaders of
share-partitions use what brokers made of it.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from quorate.cluster.config_validation import group_limits
from quorate.cluster.services import Services

_NONE: Mapping[str, str] = MappingProxyType({})


class GroupConfigs:
    """The applied configs of all groups.

    Since 4.3, a number beyond the limits of the brokers' configs counts as the limit. The parser of
    these numbers (`GroupConfig.evaluate`) rejects spaces around them, which ConfigDef and so the
    controller accept: brokers then keep all configs of the group as they were, and log an error.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._applied: dict[str, Mapping[str, str]] = {}

    def of(self, group_id: str) -> Mapping[str, str]:
        """Return the applied configs of a group."""
        return self._applied.get(group_id, _NONE)

    def groups(self) -> Iterable[str]:
        """Return the groups with applied configs; before 4.3, also those that had some."""
        return self._applied

    def changed(self, group_id: str) -> None:
        """Apply the stored configs of a group."""
        stored = self._services.state.group_configs.get(group_id, {})
        broker_configs = self._services.broker_configs
        applied = dict(stored)
        if not broker_configs.behaviour.limits_group_configs:
            if stored or group_id in self._applied:
                self._applied[group_id] = applied
            return
        if not stored:
            self._applied.pop(group_id, None)
            return
        for name, (least, most) in group_limits(broker_configs, stored).items():
            text = stored[name]
            if text != text.strip():
                self._services.reports.note(
                    f"configs of group {group_id} are stored but not applied: {name} has spaces around {text.strip()}"
                )
                return
            number = int(text)
            if least is not None and number < least:
                applied[name] = str(least)
            elif most is not None and number > most:
                applied[name] = str(most)
        self._applied[group_id] = applied
