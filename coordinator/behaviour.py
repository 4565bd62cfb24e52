"""What releases of Kafka do in different ways, by name: `Behaviour.of(version)`.

The only place in the coordinator that knows numbers of releases.

A fix that was taken over into older lines has a release per line; before the first line named,
nobody has it. Only what shows in records or answers is here. Held against the coordinators of
4.3.1, 4.2.1, 4.1.2 and 4.0.2; the others are told by what changed when (Kafka's issues, and its
code).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self

from quorate.codecs.releases import KafkaVersion

__all__ = ["Behaviour", "since"]

_4_0 = KafkaVersion(4, 0)
_4_1 = KafkaVersion(4, 1)
_4_2 = KafkaVersion(4, 2)
_4_3 = KafkaVersion(4, 3)


def since(version: KafkaVersion, *releases: KafkaVersion) -> bool:
    """Whether a release has what came with `releases`, one per line, oldest first: with its own line's, or with the newest if its line is newer than all."""
    line = (version.major, version.minor)
    for release in releases:
        if (release.major, release.minor) == line:
            return version >= release
    return version >= releases[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What one release does. Each flag says what newer releases do.

    `metadata_hash`: groups keep a hash of what they subscribe to (KIP-1101), not records of type 4.
    `topic_ids`: offsets are written with topic ids, in version 4 (KAFKA-14690).
    `assignment_epochs`: partitions of members keep the epoch at which they were assigned, and
    commits at earlier epochs are looked at one by one (KIP-1251). `first_epoch`: of a new group,
    and `assignment_interval`: targets are not computed too often, and carry their time (KIP-1263).

    `follows_subscription`: a member gives up topics that it no longer subscribes to, whatever its
    target says (KAFKA-19431). `rejoins_at_0`: epoch 0 always passes (KAFKA-19233). `keeps_epoch`: a
    member that has revoked partitions stays at its epoch until it reaches the target's
    (KAFKA-19974). `takes_back`: what a member still has to revoke is free for itself (with
    KAFKA-19862). `counts_trims`: to give up a topic without a new target makes the epoch the
    previous one, too.

    `regex_removal_bumps`: the group's epoch goes up if a member drops its expression (KAFKA-19891).
    `rematches`: expressions are matched anew from time to time
    (`group.consumer.regex.refresh.interval.ms`). `first_version`: of the metadata before there is
    any.

    `follows_target`: classic members of a consumer group join again when there is another target,
    not already when there is another epoch (KIP-1263); a group that becomes classic as its last
    member of the new protocol comes back as a classic one rebalances if its target is behind, not
    if that member subscribes otherwise. `policy_closes`: the migration policy "disabled" keeps
    classic members out (KAFKA-20640).

    `deletes_topics_by_id`: offsets go with the topic id that was deleted, not with every partition
    that was deleted under the name. `streams_groups`, `share_groups`: records of these groups can
    be read; the share groups of 4.0, an early access, had others. `new_coordinator`: classic groups
    have the coordinator of KIP-848, too. That of 3.9, unless it is told otherwise, is the older
    one: its groups without members and offsets go as soon as any topic is deleted.

    `forgets_start`: a producer that begins again with its transactional id has no start of a last
    transaction.
    """

    metadata_hash: bool
    topic_ids: bool
    assignment_epochs: bool
    first_epoch: int
    assignment_interval: bool
    follows_subscription: bool
    rejoins_at_0: bool
    keeps_epoch: bool
    takes_back: bool
    counts_trims: bool
    regex_removal_bumps: bool
    rematches: bool
    first_version: int
    follows_target: bool
    policy_closes: bool
    deletes_topics_by_id: bool
    streams_groups: bool
    share_groups: bool
    new_coordinator: bool
    forgets_start: bool

    NEWEST: ClassVar["Behaviour"]

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, version: KafkaVersion) -> Self:
        """The behaviour of a release."""
        return cls(
            metadata_hash=since(version, _4_1),
            topic_ids=since(version, _4_1),
            assignment_epochs=since(version, _4_3),
            first_epoch=1 if since(version, _4_3) else 0,
            assignment_interval=since(version, _4_3),
            follows_subscription=since(version, _4_2),
            rejoins_at_0=since(version, _4_2),
            keeps_epoch=since(version, _4_2),
            takes_back=since(version, KafkaVersion(4, 0, 2), KafkaVersion(4, 1, 2), _4_2),
            counts_trims=since(version, _4_3),
            regex_removal_bumps=since(version, KafkaVersion(4, 1, 2), _4_2),
            rematches=since(version, _4_1),
            first_version=0 if since(version, _4_2) else -1,
            follows_target=since(version, _4_3),
            policy_closes=since(version, KafkaVersion(4, 3, 1)),
            deletes_topics_by_id=since(version, _4_3),
            streams_groups=since(version, _4_1),
            share_groups=since(version, _4_1),
            new_coordinator=since(version, _4_0),
            forgets_start=since(version, _4_1),
        )


Behaviour.NEWEST = Behaviour.of(KafkaVersion.NEWEST)
