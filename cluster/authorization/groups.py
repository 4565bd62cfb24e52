"""Rules for groups and offsets.

Members need READ on the group, descriptions DESCRIBE, deletions DELETE. Topics that a request names
need permissions, too.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from quorate.cluster.access import Access
from quorate.cluster.apis.groups import lacks_feature, lacks_protocol, share_member_id_is_too_long
from quorate.cluster.apis.streams_group_heartbeat import named_topics, topology_problem
from quorate.cluster.authorization.call import Call, HandlerResult
from quorate.cluster.authorization.rules import Rule, group_permission
from quorate.cluster.authorizer import UNKNOWN_OPERATIONS, Operation, ResourceType
from quorate.cluster.turns import Work, map_in_turns, split
from quorate.codecs import Uuid
from quorate.codecs.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from quorate.codecs.api.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic
from quorate.codecs.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.error_responses import error_element
from quorate.codecs.api.offset_delete import OffsetDeleteResponseTopic
from quorate.codecs.api.offset_fetch import OffsetFetchResponseTopic, OffsetFetchResponseTopics
from quorate.codecs.api.streams_group_describe import DescribedGroup as StreamsDescribedGroup

_MEMBER = group_permission(Operation.READ)


def sync_group(call: Call) -> HandlerResult:
    """Require READ on the group. The handler rejects a request without the protocol."""
    return call.handle() if lacks_protocol(call.request, call.context.api_version) else _MEMBER(call)


def group_heartbeat(call: Call) -> Work[Any]:
    """Require READ on the group, and DESCRIBE on each topic that is subscribed to by name.

    The coordinator filters topics that match a regex.
    """
    invalid = share_member_id_is_too_long(call.request)
    return _heartbeat(call, () if invalid else call.request.subscribed_topic_names or ())


def _heartbeat(call: Call, names: Iterable[str]) -> Work[Any]:
    """Require READ on the group, and DESCRIBE on topics."""
    if lacks_feature(call.broker, call.request):
        return call.handle()
    if not call.access.may(Operation.READ, ResourceType.GROUP, call.request.group_id):
        return (yield from call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not (yield from call.access.may_with_all(Operation.DESCRIBE, ResourceType.TOPIC, names)):
        return (yield from call.failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return call.handle()


def streams_group_heartbeat(call: Call) -> Work[Any]:
    """Require READ on the group, and DESCRIBE on each topic of the topology.

    The handler requires CREATE for internal topics that it creates.
    """
    return _heartbeat(call, named_topics(call.request) if topology_problem(call.request) is None else ())


# ---- list, describe and delete


def list_groups(call: Call) -> HandlerResult:
    """Leave out groups without DESCRIBE, unless the client has DESCRIBE on the cluster."""
    access = call.access
    if access.may_with_cluster(Operation.DESCRIBE):
        return call.handle()

    def visible(response: Any) -> Work[Any]:
        seen, _ = yield from split(
            response.groups, lambda one: access.may(Operation.DESCRIBE, ResourceType.GROUP, one.group_id)
        )
        return replace(response, groups=seen)

    return call.after(call.handle(), visible)


def _each_group(operation: Operation, field: str, response: str) -> Rule:
    """Return a rule that requires a permission on each group, with an error for each denied one."""

    def rule(call: Call) -> Work[Any]:
        if lacks_feature(call.broker, call.request):
            return call.handle()
        groups = getattr(call.request, field)
        left, refused = yield from split(groups, lambda one: call.access.may(operation, ResourceType.GROUP, one))
        if not refused:
            return call.handle()
        failed = yield from call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED, **{field: refused})
        if not left:
            return failed

        def merge(handled: Any) -> Any:
            return replace(handled, **{response: getattr(failed, response) + getattr(handled, response)})

        return call.after(call.handle(**{field: left}), merge)

    return rule


def delete_groups(call: Call) -> HandlerResult:
    """Require DELETE on each group. A group that is named twice has one result."""
    once = tuple(dict.fromkeys(call.request.groups_names))
    return _each_group(Operation.DELETE, "groups_names", "results")(
        replace(call, request=replace(call.request, groups_names=once))
    )


def _described(field: str, topics_of: Callable[[Any], Iterator[str]]) -> Rule:
    """Return a rule that requires DESCRIBE on each group and on all topics of its description."""
    each_group = _each_group(Operation.DESCRIBE, field, "groups")

    def rule(call: Call) -> HandlerResult:
        def visible(response: Any) -> Work[Any]:
            groups = yield from map_in_turns(response.groups, lambda one: _seen(one, call.access, topics_of))
            return replace(response, groups=groups)

        return call.after(each_group(call), visible)

    return rule


_TOPICS_OF_MEMBERS = "The group has described topic(s) that the client is not authorized to describe."
_TOPICS_OF_STREAMS = "The described group uses topics that the client is not authorized to describe."


def _seen(group: Any, access: Access, topics_of: Callable[[Any], Iterator[str]]) -> Any:
    if group.error_code:
        return group
    names = frozenset(topics_of(group))
    if access.topics(Operation.DESCRIBE, names) != names:
        return type(group)(
            group_id=group.group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message=_TOPICS_OF_STREAMS if type(group) is StreamsDescribedGroup else _TOPICS_OF_MEMBERS,
        )
    if group.authorized_operations == UNKNOWN_OPERATIONS:
        return group
    allowed = access.operations(ResourceType.GROUP, group.group_id, group.authorized_operations)
    return replace(group, authorized_operations=allowed)


def _of_consumers(group: Any) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (topic_partition.topic_name for topic_partition in assignment.topic_partitions)


def _of_share_consumers(group: Any) -> Iterator[str]:
    for member in group.members:
        yield from (topic_partition.topic_name for topic_partition in member.assignment.topic_partitions)


def _of_streams(group: Any) -> Iterator[str]:
    for part in group.topology.subtopologies or () if group.topology is not None else ():
        yield from (*part.source_topics, *part.repartition_sink_topics)
        yield from (topic.name for topic in (*part.repartition_source_topics, *part.state_changelog_topics))


describe_groups = _described("groups", lambda group: iter(()))
consumer_group_describe = _described("group_ids", _of_consumers)
share_group_describe = _described("group_ids", _of_share_consumers)
streams_group_describe = _described("group_ids", _of_streams)


# ---- offsets


def offset_commit(call: Call) -> HandlerResult:
    """Require READ on the group and on each topic."""
    if not call.access.may(Operation.READ, ResourceType.GROUP, call.request.group_id):
        return call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return call.without_topics(Operation.READ, name_of=lambda topic: _name_of(call, topic, by_id_since=10))


def _name_of(call: Call, topic: Any, *, by_id_since: int) -> str | None:
    """Return a topic's name, also for a topic id; `None` for an unknown id.

    `by_id_since`: first version of the API with topic ids.
    """
    return topic.name if call.context.api_version < by_id_since else call.name_of_topic(topic.topic_id)


def txn_offset_commit(call: Call) -> HandlerResult:
    """Require WRITE on the transactional id, and READ on the group and on each topic."""
    request, access = call.request, call.access
    if not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return call.failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not access.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return call.without_topics(Operation.READ, name_of=lambda topic: _name_of(call, topic, by_id_since=6))


def offset_delete(call: Call) -> HandlerResult:
    """Require DELETE on the group and READ on each topic."""
    if not call.access.may(Operation.DELETE, ResourceType.GROUP, call.request.group_id):
        return call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def failed(topics: tuple[Any, ...]) -> tuple[Any, ...]:
        code, version = ErrorCode.TOPIC_AUTHORIZATION_FAILED, call.context.api_version
        return tuple(error_element(topic, OffsetDeleteResponseTopic.spec, version, code) for topic in topics)

    return call.without_topics(Operation.READ, failed=failed)


def offset_fetch(call: Call) -> Work[Any]:
    """Require DESCRIBE on each group and topic.

    Denied topics have errors if they are named, and are left out if all topics are requested.
    """
    if call.context.api_version < 8:
        return (yield from _fetch_of_one(call))
    groups, access = call.request.groups, call.access
    left, refused = yield from split(
        groups, lambda one: access.may(Operation.DESCRIBE, ResourceType.GROUP, one.group_id)
    )
    failed = yield from call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED, groups=refused)
    requested, errors = [], {}
    for one in left:
        topics, errors[one.group_id] = yield from _allowed_topics(call, one.topics)
        requested.append(replace(one, topics=topics))
        yield None
    if not requested and refused:
        return failed

    def merge(response: Any) -> Work[Any]:
        found = []
        for one in response.groups:
            if not one.error_code:
                described = yield from _described_topics(call, one.topics)
                one = replace(one, topics=described + errors.get(one.group_id, ()))
            found.append(one)
            yield None
        return replace(response, groups=(*found, *failed.groups))

    return call.after(call.handle(groups=tuple(requested)), merge)


def _fetch_of_one(call: Call) -> Work[Any]:
    if not call.access.may(Operation.DESCRIBE, ResourceType.GROUP, call.request.group_id):
        return (yield from call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    topics, errors = yield from _allowed_topics(call, call.request.topics)

    def merge(response: Any) -> Work[Any]:
        if response.error_code:
            return response
        return replace(response, topics=(yield from _described_topics(call, response.topics)) + errors)

    return call.after(call.handle(topics=topics), merge)


def _allowed_topics(call: Call, topics: tuple[Any, ...] | None) -> Work[tuple[tuple[Any, ...] | None, tuple[Any, ...]]]:
    """Return the topics of a request with DESCRIBE, and the response's entries for the others."""
    if topics is None:
        return None, ()
    left, others = yield from call.split_topics(
        Operation.DESCRIBE, topics, lambda one: _name_of(call, one, by_id_since=10)
    )
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    version = call.context.api_version
    spec = (OffsetFetchResponseTopic if version < 8 else OffsetFetchResponseTopics).spec
    return left, (yield from map_in_turns(others, lambda one: error_element(one, spec, version, code)))


def _described_topics(call: Call, topics: tuple[Any, ...]) -> Work[tuple[Any, ...]]:
    """Return the topics of a response with DESCRIBE, and those with unknown ids."""
    left, _ = yield from call.split_topics(Operation.DESCRIBE, topics, lambda one: _name_of(call, one, by_id_since=10))
    return left


# ---- offsets of share groups


_NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def describe_share_group_offsets(call: Call) -> Work[Any]:
    """Require DESCRIBE on each group and topic.

    Denied topics have errors if they are named, and are left out if all topics are requested.
    """
    request, access = call.request, call.access
    if lacks_feature(call.broker, request):
        return call.handle()
    left, _ = yield from split(
        request.groups, lambda one: access.may(Operation.DESCRIBE, ResourceType.GROUP, one.group_id)
    )
    requested, denied = [], {}
    for one in left:
        if one.topics is not None:
            topics, denied[one.group_id] = yield from call.split_topics(
                Operation.DESCRIBE, one.topics, lambda topic: str(topic.topic_name)
            )
            one = replace(one, topics=topics)
        requested.append(one)
        yield None

    def merge(response: Any) -> Any:
        found = {group.group_id: group for group in response.groups}
        groups = []
        for one in request.groups:
            group = found.get(one.group_id)
            if group is None:
                code = ErrorCode.GROUP_AUTHORIZATION_FAILED
                group = DescribeShareGroupOffsetsResponseGroup(group_id=one.group_id, error_code=code)
            elif one.topics is None:
                allowed = access.topics(Operation.DESCRIBE, frozenset(topic.topic_name for topic in group.topics))
                group = replace(group, topics=tuple(topic for topic in group.topics if topic.topic_name in allowed))
            elif not group.error_code:
                group = replace(group, topics=(*group.topics, *map(_not_described, denied[one.group_id])))
            groups.append(group)
        return replace(response, groups=tuple(groups))

    return call.after(call.handle(groups=tuple(requested)), merge)


def _not_described(topic: Any) -> DescribeShareGroupOffsetsResponseTopic:
    partitions = tuple(
        DescribeShareGroupOffsetsResponsePartition(
            partition_index=one, start_offset=-1, error_code=_NO_TOPIC, error_message=_NO_TOPIC.text
        )
        for one in topic.partitions
    )
    return DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=partitions)


def alter_share_group_offsets(call: Call) -> Work[Any]:
    """Require READ on the group and on each topic."""

    def failed(topic: Any) -> AlterShareGroupOffsetsResponseTopic:
        found = call.broker.cluster.topics.get(topic.topic_name)
        partitions = tuple(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=one.partition_index, error_code=_NO_TOPIC, error_message=_NO_TOPIC.text
            )
            for one in topic.partitions
        )
        topic_id = Uuid.ZERO if found is None else found.id
        return AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, topic_id=topic_id, partitions=partitions
        )

    return _changed_offsets(call, Operation.READ, failed, lambda topic: bool(topic.partitions))


def delete_share_group_offsets(call: Call) -> Work[Any]:
    """Require DELETE on the group and READ on each topic."""

    def failed(topic: Any) -> DeleteShareGroupOffsetsResponseTopic:
        return DeleteShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, error_code=_NO_TOPIC, error_message=_NO_TOPIC.text
        )

    return _changed_offsets(call, Operation.DELETE, failed)


def _changed_offsets(
    call: Call, operation: Operation, failed: Callable[[Any], Any], reported: Callable[[Any], bool] = lambda topic: True
) -> Work[Any]:
    """Require a permission on the group; the response has denied topics first, if `reported`."""
    if lacks_feature(call.broker, call.request):
        return call.handle()
    if not call.access.may(operation, ResourceType.GROUP, call.request.group_id):
        return (yield from call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    left, refused = yield from call.split_topics(
        Operation.READ, call.request.topics, lambda topic: str(topic.topic_name)
    )

    def merge(response: Any) -> Any:
        if response.error_code:
            return response
        return replace(response, responses=(*map(failed, filter(reported, refused)), *response.responses))

    return call.after(call.handle(topics=left), merge)
