"""How releases of Kafka differ: `Behaviour.of(version)`.

The only module of the coordinator that compares release numbers. A fix that was backported is
listed with one release per line; earlier lines never have it.

Only differences that show in records or responses are listed. Tests compare with the coordinators
of 4.4.0, 4.3.1, 4.2.1, 4.1.2 and 4.0.2. For other releases, the release of a change comes from
Kafka's issues and code.
"""

from functools import lru_cache
from typing import ClassVar, Self

from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.releases import KafkaVersion

__all__ = ["Behaviour", "since"]

_4_0 = KafkaVersion(4, 0)
_4_1 = KafkaVersion(4, 1)
_4_2 = KafkaVersion(4, 2)
_4_3 = KafkaVersion(4, 3)
_4_4 = KafkaVersion(4, 4)


def since(version: KafkaVersion, *releases: KafkaVersion) -> bool:
    """Return whether a version contains a change that was released in `releases`.

    `releases`: one per line, oldest first. A version of one of these lines is compared with the
    release of its own line, any other with the newest.
    """
    line = (version.major, version.minor)
    for release in releases:
        if (release.major, release.minor) == line:
            return version >= release
    return version >= releases[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The behaviour of one release. Each flag describes what newer releases do.

    Metadata and epochs:

    - `metadata_hash`: groups store a hash of their subscribed topics (KIP-1101), not a record of
      type 4 (ConsumerGroupPartitionMetadata).
    - `topic_ids`: offset commits are written in version 4, with topic ids (KAFKA-14690).
    - `assignment_epochs`: members keep the epoch at which each partition was assigned; commits with
      an older member epoch are checked per partition (KIP-1251).
    - `first_epoch`: group epoch of a new group.
    - `assignment_interval`: the assignment interval limits how often target assignments are
      computed, and their records carry a timestamp (KIP-1263).
    - `assignor_bumps`: the group epoch is incremented when the assignor that most members prefer
      changes (KAFKA-20434).
    - `empties_target`: when the last member is removed, the target assignment follows to the new
      group epoch (KAFKA-20442).

    Reconciliation:

    - `follows_subscription`: a member revokes topics that it no longer subscribes to, whatever its
      target assignment contains (KAFKA-19431).
    - `rejoins_at_0`: a member may always rejoin with epoch 0 (KAFKA-19233).
    - `keeps_epoch`: a member that has revoked partitions keeps its epoch until it reaches the
      target epoch (KAFKA-19974).
    - `takes_back`: a member can be reassigned its own partitions pending revocation (with
      KAFKA-19862).
    - `counts_trims`: revoking a topic without a new target also updates the previous member epoch.

    Static members:

    - `readmits_static`: a static member may rejoin a full group (KAFKA-20601).
    - `forgets_instance_ids`: a member that changes its instance id is no longer found by its
      previous one (KAFKA-20747).
    - `moves_target`: assignors see the target assignment of a replaced static member as that of the
      new member (KAFKA-20292).

    Regexes:

    - `regex_removal_bumps`: the group epoch is incremented if a member drops its regex
      (KAFKA-19891).
    - `rematches`: regexes are resolved again after `group.consumer.regex.refresh.interval.ms`.
    - `first_version`: version of the metadata image before the first one is published.

    Classic protocol:

    - `follows_target`: classic members of a consumer group rejoin when the target assignment
      changes, not already when the group epoch changes (KIP-1263). When the group's last member of
      the new protocol is replaced by a static classic member, the downgraded group rebalances if
      its target assignment is outdated, not if the subscription differs.
    - `policy_closes`: the migration policy "disabled" rejects classic members (KAFKA-20640).
    - `rejects_malformed`: a subscription that cannot be decoded is rejected with
      INCONSISTENT_GROUP_PROTOCOL (KAFKA-20662), and prevents the upgrade of a classic group with
      GROUP_ID_NOT_FOUND (KAFKA-20570), not with UNKNOWN_SERVER_ERROR.
    - `new_coordinator`: classic groups use the coordinator of KIP-848, too. Kafka 3.9 uses the
      older one by default, which deletes groups without members and offsets as soon as any topic is
      deleted.

    Others:

    - `transactional_topic_ids`: offsets of transactions are stored with topic ids, and a commit of
      an unknown topic does not have an illegal generation (KIP-1319).
    - `deletes_topics_by_id`: offsets are deleted with the topic id, not with every deleted
      partition of that topic name.
    - `checks_share_offsets`: offsets and groups do not expire while a share group has offsets;
      before, these were ignored (since KIP-1331).
    - `streams_groups`, `share_groups`: records of these groups are supported. The share groups of
      4.0, an early access, had other records.
    - `streams_instances`: members of streams groups may have instance ids, report task offsets, and
      own warm-up tasks.
    - `strict_share_state`: share coordinators reject negative epochs, and a write that comes late
      does not decrease the start offset or the count of completed deliveries. Before, an epoch of
      -1 is not checked.
    - `forgets_start`: a new producer epoch of a transactional id has no start time of a last
      transaction.
    """

    metadata_hash: bool
    topic_ids: bool
    assignment_epochs: bool
    first_epoch: int
    assignment_interval: bool
    assignor_bumps: bool
    empties_target: bool
    follows_subscription: bool
    rejoins_at_0: bool
    keeps_epoch: bool
    takes_back: bool
    counts_trims: bool
    readmits_static: bool
    forgets_instance_ids: bool
    moves_target: bool
    regex_removal_bumps: bool
    rematches: bool
    first_version: int
    follows_target: bool
    policy_closes: bool
    rejects_malformed: bool
    transactional_topic_ids: bool
    deletes_topics_by_id: bool
    checks_share_offsets: bool
    streams_groups: bool
    share_groups: bool
    streams_instances: bool
    strict_share_state: bool
    new_coordinator: bool
    forgets_start: bool

    NEWEST: ClassVar["Behaviour"]

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, version: KafkaVersion) -> Self:
        """Return the behaviour of a release."""
        return cls(
            metadata_hash=since(version, _4_1),
            topic_ids=since(version, _4_1),
            assignment_epochs=since(version, _4_3),
            first_epoch=1 if since(version, _4_3) else 0,
            assignment_interval=since(version, _4_3),
            assignor_bumps=since(version, _4_4),
            empties_target=since(version, _4_4),
            follows_subscription=since(version, _4_2),
            rejoins_at_0=since(version, _4_2),
            keeps_epoch=since(version, _4_2),
            takes_back=since(version, KafkaVersion(4, 0, 2), KafkaVersion(4, 1, 2), _4_2),
            counts_trims=since(version, _4_3),
            readmits_static=since(version, _4_4),
            forgets_instance_ids=since(version, _4_4),
            moves_target=since(version, _4_4),
            regex_removal_bumps=since(version, KafkaVersion(4, 1, 2), _4_2),
            rematches=since(version, _4_1),
            first_version=0 if since(version, _4_2) else -1,
            follows_target=since(version, _4_3),
            policy_closes=since(version, KafkaVersion(4, 3, 1), _4_4),
            rejects_malformed=since(version, _4_4),
            transactional_topic_ids=since(version, _4_4),
            deletes_topics_by_id=since(version, _4_3),
            checks_share_offsets=since(version, _4_4),
            streams_groups=since(version, _4_1),
            share_groups=since(version, _4_1),
            streams_instances=since(version, _4_4),
            strict_share_state=since(version, _4_4),
            new_coordinator=since(version, _4_0),
            forgets_start=since(version, _4_1),
        )


Behaviour.NEWEST = Behaviour.of(KafkaVersion.NEWEST)
