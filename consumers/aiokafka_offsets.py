"""Commits and reads offsets with the member's epoch, and learns the ids of topics.

aiokafka's own OffsetCommit ends with version 3, and its OffsetFetch and Metadata have no topic ids.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiokafka import errors
from aiokafka.client import ConnectionGroup
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from quorate.codecs import Uuid
from quorate.codecs.api import OffsetCommitRequest, OffsetFetchRequest
from quorate.codecs.api.broker.metadata import MetadataRequest, MetadataRequestTopic
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from quorate.codecs.errors import QuorateError
from quorate.consumers.aiokafka_requests import AioRequest, GroupError, error_for
from quorate.consumers.aiokafka_subscription import GroupSubscription
from quorate.consumers.membership import ConsumerMembership

log = logging.getLogger(__name__)

FIRST_WITH_EPOCHS, FIRST_WITH_TOPIC_IDS = 9, 10
"""Versions of OffsetCommit and OffsetFetch (KIP-848)."""

FIRST_METADATA_BY_ID = 12

NO_COORDINATOR = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT}
)
NOT_A_MEMBER = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
"""Errors of a commit that another member's commit may supersede."""


class _NotCommitted(QuorateError, errors.KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """The member is not in the group, or its epoch is another one."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class OffsetCoordinator(GroupCoordinator):  # type: ignore[misc]
    """aiokafka's coordinator with newer requests for offsets."""

    _subscription: GroupSubscription
    _membership: ConsumerMembership
    topic_names: dict[Uuid, str]

    def member(self) -> tuple[str, int] | None:
        """Return id and epoch of the member; `None` if the application assigns partitions."""
        if not self._subscription.partitions_auto_assigned() and self._membership.member_epoch <= 0:
            return None
        return self._membership.identity.member_id, self._membership.member_epoch

    async def send_own(self, request: AioRequest) -> Any:
        """Send a request to the coordinator."""
        if self.coordinator_id is None:
            raise errors.GroupCoordinatorNotAvailableError
        return await self._client.send(self.coordinator_id, request, group=ConnectionGroup.COORDINATION)

    # Commits.

    async def commit_offsets(self, assignment: Any, offsets: Mapping[Any, Any]) -> None:
        """Commit for the application, and repeat it after retriable errors.

        Raises `CommitFailedError` if the member was fenced or its epoch changed meanwhile.
        """
        while offsets:
            await self.ensure_coordinator_known()
            try:
                async with self._commit_lock:
                    await self._do_commit_offsets(assignment, offsets)
            except _NotCommitted as error:
                raise errors.CommitFailedError(
                    f"{error.code.name}: the member was removed, or its epoch changed meanwhile"
                ) from error
            except errors.KafkaError as error:
                if not error.retriable:
                    raise
                await asyncio.sleep(self._retry_backoff_ms / 1000)
            else:
                return

    async def commit_before_rebalance(self, consumed: Callable[[], Mapping[Any, Any]]) -> None:
        """Commit, also again with a newer epoch. The caller limits the time.

        `consumed`: returns the offsets. Those of each attempt are new, since an automatic commit
        may come between two.
        """
        while consumed():
            await self.ensure_coordinator_known()
            try:
                async with self._commit_lock:
                    await self._do_commit_offsets(None, consumed())
            except errors.KafkaError as error:
                stale = isinstance(error, _NotCommitted) and error.code is ErrorCode.STALE_MEMBER_EPOCH
                if not (error.retriable or stale):
                    raise
                await asyncio.sleep(self._retry_backoff_ms / 1000)
            else:
                return

    async def _do_commit_offsets(self, assignment: Any, offsets: Mapping[Any, Any]) -> None:
        if not offsets:
            return
        member = self.member()
        if member is not None and member[1] <= 0:
            raise _NotCommitted(ErrorCode.UNKNOWN_MEMBER_ID)
        by_topic: defaultdict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for at, one in offsets.items():
            partition = OffsetCommitRequestPartition(
                partition_index=at.partition, committed_offset=one.offset, committed_metadata=one.metadata
            )
            by_topic[at.topic].append(partition)
        ids = self._topic_ids()
        request = OffsetCommitRequest(
            group_id=self.group_id,
            group_instance_id=self._group_instance_id if member else None,
            **({"member_id": member[0], "generation_id_or_member_epoch": member[1]} if member else {}),  # type: ignore[arg-type]
            topics=tuple(
                OffsetCommitRequestTopic(name=topic, topic_id=ids.get(topic, Uuid.ZERO), partitions=tuple(partitions))
                for topic, partitions in by_topic.items()
            ),
        )
        response = await self._send_offsets(request, by_topic.keys() <= ids.keys())
        unauthorized = set()
        failed: ErrorCode | None = None
        for topic in response.topics:
            name = topic.name or self.topic_names.get(topic.topic_id, "")
            for partition in topic.partitions:
                code = ErrorCode(partition.error_code)
                if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    unauthorized.add(name)
                elif code is not ErrorCode.NONE:
                    log.info("Offset of %s-%d was not committed: %s", name, partition.partition_index, code.name)
                    failed = failed or code
        if failed is not None:
            self._raise_commit_error(failed)
        if unauthorized:
            raise errors.TopicAuthorizationFailedError(unauthorized)

    def _raise_commit_error(self, code: ErrorCode) -> None:
        if code in NO_COORDINATOR:
            self.coordinator_dead()
        if code in NOT_A_MEMBER:
            raise _NotCommitted(code)
        if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
            # aiokafka would retry this for ever, for a deleted topic.
            raise GroupError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "a topic or partition does not exist")
        raise error_for(code, self.group_id if code is ErrorCode.GROUP_AUTHORIZATION_FAILED else "")

    def _is_commit_retriable(self, error: Any) -> bool:
        return error.retriable or isinstance(error, _NotCommitted)

    # Committed offsets.

    async def _do_fetch_commit_offsets(self, partitions: Iterable[Any]) -> dict[Any, Any]:
        by_topic: defaultdict[str, list[int]] = defaultdict(list)
        for at in partitions:
            by_topic[at.topic].append(at.partition)
        member = self.member()
        ids = self._topic_ids()
        group = OffsetFetchRequestGroup(
            group_id=self.group_id,
            **({"member_id": member[0], "member_epoch": member[1]} if member and member[1] > 0 else {}),  # type: ignore[arg-type]
            topics=tuple(
                OffsetFetchRequestTopics(
                    name=topic, topic_id=ids.get(topic, Uuid.ZERO), partition_indexes=tuple(numbers)
                )
                for topic, numbers in by_topic.items()
            ),
        )
        request = OffsetFetchRequest(groups=(group,), require_stable=True)
        response = await self._send_offsets(request, by_topic.keys() <= ids.keys())
        (found,) = response.groups
        self._raise_fetch_error(found.error_code)
        offsets = {}
        for topic in found.topics:
            name = topic.name or self.topic_names.get(topic.topic_id, "")
            for one in topic.partitions:
                if one.error_code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
                    self._raise_fetch_error(one.error_code)
                    if one.committed_offset >= 0:
                        at = TopicPartition(name, one.partition_index)
                        offsets[at] = OffsetAndMetadata(one.committed_offset, one.metadata or "")
        return offsets

    def _raise_fetch_error(self, code: int) -> None:
        if not code:
            return
        if code in NO_COORDINATOR:
            self.coordinator_dead()
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            # Retried as Java does, with the member's next epoch.
            raise GroupError(ErrorCode.STALE_MEMBER_EPOCH, "the member is about to join again")
        raise error_for(code, self.group_id if code == ErrorCode.GROUP_AUTHORIZATION_FAILED else "")

    async def _send_offsets(self, message: OffsetCommitRequest | OffsetFetchRequest, has_ids: bool) -> Any:
        max_version = FIRST_WITH_TOPIC_IDS if has_ids else FIRST_WITH_EPOCHS
        try:
            return await self.send_own(AioRequest(message, min_version=FIRST_WITH_EPOCHS, max_version=max_version))
        except errors.KafkaError as error:
            if error.retriable:
                self.coordinator_dead()
            raise

    # Topics.

    def _topic_ids(self) -> dict[str, Uuid]:
        return {name: topic_id for topic_id, name in self.topic_names.items()}

    async def read_topic_names(self, *, ids: Iterable[Uuid] = (), names: Iterable[str] = ()) -> bool:
        """Learn the names and ids of topics that exist; return whether there are any."""
        topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids]
        topics += [MetadataRequestTopic(name=name) for name in names]
        message = MetadataRequest(topics=tuple(topics), allow_auto_topic_creation=False)
        request = AioRequest(message, min_version=FIRST_METADATA_BY_ID)
        response = await self._client.send(self._client.get_random_node(), request)
        found = {topic.topic_id: topic.name for topic in response.topics if not topic.error_code}
        if found:
            self.topic_names |= found
            self._membership.topic_names(self.topic_names)
        return bool(found)
