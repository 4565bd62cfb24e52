"""What brokers of releases of Kafka do in different ways, by name: `BrokerBehaviour.of(version)`.

What coordinators do is in `coordinator/behaviour.py`.

Nothing else in `cluster/` compares releases. Which configs, APIs and features a release has are
tables of their own.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from quorate.codecs.releases import KafkaVersion

__all__ = ["BrokerBehaviour"]

_4_0 = KafkaVersion(4, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerBehaviour:
    """What the brokers of one release do. Each flag says what newer releases do.

    `features_all_or_none`: one level that is refused keeps all other features from being changed
    (KIP-1022). `group_operations`: groups have configs, so a client may be allowed to describe and
    alter these.

    `skips_empty_topics`: ListOffsets leaves out topics of which no partition is requested, and
    OffsetFetch names them; before, it was the other way round. `transaction_first`: a commit in a
    transaction that the transaction's coordinator refuses never reaches the group's coordinator,
    which creates no group then.

    `short_assignors`: `group.consumer.assignors` takes short names; before, names of classes only.
    `session_above_heartbeat`: a broker checks at its start that sessions of groups last longer than
    the interval of heartbeats.
    """

    features_all_or_none: bool
    group_operations: bool
    skips_empty_topics: bool
    transaction_first: bool
    short_assignors: bool
    session_above_heartbeat: bool

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, version: KafkaVersion) -> Self:
        """The behaviour of a release."""
        since_4_0 = version >= _4_0
        return cls(
            features_all_or_none=since_4_0,
            group_operations=since_4_0,
            skips_empty_topics=since_4_0,
            transaction_first=since_4_0,
            short_assignors=since_4_0,
            session_above_heartbeat=since_4_0,
        )
