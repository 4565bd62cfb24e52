"""Differences between the brokers of Kafka's releases, by name: `BrokerBehaviour.of(version)`.

Those of coordinators are in `coordinator/behaviour.py`.

No other module in `cluster/` compares releases. Configs, APIs and features of releases are in
tables.
"""

from functools import lru_cache
from typing import Self

from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.releases import KafkaVersion

_4_0 = KafkaVersion(4, 0)
_4_1 = KafkaVersion(4, 1)
_4_3 = KafkaVersion(4, 3)
_4_4 = KafkaVersion(4, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerBehaviour:
    """Behaviour of the brokers of one release. Each flag describes newer releases.

    `features_all_or_none`: one rejected level rejects the whole UpdateFeatures request (KIP-1022).
    `group_operations`: groups have configs, and operations to describe and alter them.

    `skips_empty_topics`: ListOffsets omits topics without requested partitions, and OffsetFetch
    includes them; before, it was the other way round. `transaction_first`: a transactional commit
    that the transaction coordinator rejects does not reach the group coordinator, which then
    creates no group.

    `short_assignors`: `group.consumer.assignors` accepts short names, not only class names.
    `session_above_heartbeat`: at startup, a broker checks that session timeouts of groups exceed
    heartbeat intervals. `unique_elements`: a dynamic list of a broker must not repeat elements. At
    startup, repeated ones are removed. `heartbeats_checked_first`: every broker rejects an invalid
    heartbeat of a consumer or share group, also one that does not coordinate the group.
    `acls_have_hosts`: an ACL with an empty host is rejected. `reports_missing_shared_topics`: the
    response to ShareFetch has an error for a topic that does not exist; before, the whole request
    failed. `limits_group_configs`: brokers apply configs of groups within the limits of their own,
    and only if these numbers have no spaces around them; ListConfigResources lists only groups with
    applied configs. `counts_beyond_int`: CreateTopics counts the partitions of a request in a long.
    `names_permissions`: the controller's errors name the missing permission. `cordons_directories`:
    log directories can be cordoned (KIP-1066). `names_limits`: errors of configs of groups have the
    limits instead of the names of brokers' configs.
    """

    features_all_or_none: bool
    group_operations: bool
    skips_empty_topics: bool
    transaction_first: bool
    short_assignors: bool
    session_above_heartbeat: bool
    unique_elements: bool
    heartbeats_checked_first: bool
    acls_have_hosts: bool
    reports_missing_shared_topics: bool
    limits_group_configs: bool
    counts_beyond_int: bool
    names_permissions: bool
    cordons_directories: bool
    names_limits: bool

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, version: KafkaVersion) -> Self:
        """Return the behaviour of a release."""
        since_4_0 = version >= _4_0
        return cls(
            features_all_or_none=since_4_0,
            group_operations=since_4_0,
            skips_empty_topics=since_4_0,
            transaction_first=since_4_0,
            short_assignors=since_4_0,
            session_above_heartbeat=since_4_0,
            unique_elements=version >= _4_4,
            heartbeats_checked_first=version >= _4_1,
            acls_have_hosts=version >= _4_4,
            reports_missing_shared_topics=version >= _4_4,
            limits_group_configs=version >= _4_3,
            counts_beyond_int=version >= _4_4,
            names_permissions=version >= _4_1,
            cordons_directories=version >= _4_3,
            names_limits=version >= _4_4,
        )
