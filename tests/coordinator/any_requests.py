"""Generates requests of every group API and version from the schemas.

    requests = AnyRequests(Random(7), duel)
    requests.send()

A valid request needs members, epochs and owned partitions of the coordinator. These are read from
quorate's shard. Then some fields are replaced by values of any_values.py.
"""

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from quorate.codecs.api import api_of
from quorate.codecs.message import MessageSpec
from quorate.codecs.wire import ArrayType, StructType
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.state import ConsumerGroup, ShareGroup, StreamsGroup
from tests.coordinator.any_values import GONE_ID, GROUPS, INSTANCES, MEMBERS, TOPICS, AnyValues, in_version
from tests.coordinator.classic_scripts import NamedDuel
from tests.coordinator.mixed_scripts import assignment, subscription
from tests.coordinator.scripts import Json
from tests.coordinator.streams_scripts import NO_TASKS, random_topology

APIS = {
    "ConsumerGroupHeartbeat": 30,
    "JoinGroup": 14,
    "SyncGroup": 10,
    "Heartbeat": 5,
    "LeaveGroup": 4,
    "OffsetCommit": 16,
    "TxnOffsetCommit": 12,
    "OffsetFetch": 10,
    "OffsetDelete": 4,
    "ShareGroupHeartbeat": 8,
    "StreamsGroupHeartbeat": 10,
    "StreamsGroupDescribe": 1,
    "StreamsGroupTopologyDescriptionUpdate": 1,
    "DeleteGroups": 2,
    "DescribeGroups": 2,
    "ConsumerGroupDescribe": 2,
    "ShareGroupDescribe": 1,
    "ListGroups": 4,
}


class AnyRequests(AnyValues):
    """Generates requests and sends them with `op`.

    `replaced_share`: share of the requests in which fields are replaced. `groups`: the group ids to
    use. `first_name`: names of members with generated ids are numbered from here.
    """

    def __init__(
        self,
        rng: Random,
        duel: NamedDuel,
        *,
        replaced_share: float = 0.5,
        groups: Sequence[str] = GROUPS,
        first_name: int = 0,
        op: Callable[..., Json] | None = None,
    ) -> None:
        super().__init__(rng, duel, groups)
        self.replaced_share = replaced_share
        self._op = op or duel.op
        self.producers: dict[int, int] = {}
        self.topologies: dict[str, Json] = {}
        self.last_name = first_name

    def send(self, api: str | None = None) -> Json:
        """Generate a request, of `api` or any, and send it to both sides."""
        rng = self.rng
        if api is None:
            known = APIS if self.duel.is_newest else {one: APIS[one] for one in APIS if not one.startswith("Streams")}
            (api,) = rng.choices(list(known), list(known.values()))
        spec = api_of(api).request
        assert spec.versions is not None
        versions = range(spec.versions.start, self.duel.last_version(api) + 1)
        version = rng.choice(versions) if rng.random() < 0.5 else versions[-1]
        body = self._valid(api, version)
        if rng.random() < self.replaced_share:
            for _ in range(rng.choice([1, 1, 2, 3])):
                self._replace(spec, body, version)
        if api == "JoinGroup" and body.get("rebalanceTimeoutMs", -1) < 1:
            body["rebalanceTimeoutMs"] = 5000  # with lower values Kafka's own timers never end
        body = in_version(spec, body, version)
        if api == "ConsumerGroupHeartbeat" and version == 0 and rng.random() < 0.5:
            body["memberId"] = "" if not body.get("memberEpoch") else body.get("memberId", "")
        return self._request(api, version, body)

    def _request(self, api: str, version: int, body: Json) -> Json:
        names = {}
        if api in ("JoinGroup", "ConsumerGroupHeartbeat") and not body.get("memberId"):
            self.last_name += 1
            names = {"names": f"${self.last_name}"}
        text = json.dumps(body, ensure_ascii=False)
        for name, member_id in self.duel.ids.items():
            text = text.replace(member_id, name)
        client = self.rng.choice(["client", "client", "c", "ünï-client", ""])
        response = self._op("request", api=api, version=version, clientId=client, body=json.loads(text), **names)
        if api == "TxnOffsetCommit" and response.get("response"):
            self.producers[body.get("producerId", 0)] = body.get("producerEpoch", 0)
        member = body.get("memberId")
        if member and member not in self.seen_members:
            self.seen_members.append(member)
        return response

    # Valid requests

    def _valid(self, api: str, version: int) -> Json:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api).lower()
        body: Json = getattr(self, f"_{name}")(version)
        return body

    def _group(self, kind: type | None = None) -> str:
        """Return the id of a group, if possible of this kind."""
        existing = [name for name, group in self.state.items() if kind is None or isinstance(group, kind)]
        return self.rng.choice(existing) if existing and self.rng.random() < 0.8 else self.rng.choice(self.groups)

    def _consumer_group_heartbeat(self, version: int) -> Json:
        rng = self.rng
        group = self._group(ConsumerGroup)
        state = self.state.get(group)
        members = list(state.members.values()) if isinstance(state, ConsumerGroup) else []
        if not members or rng.random() < 0.3:
            body: Json = {"groupId": group, "memberId": rng.choice(MEMBERS), "memberEpoch": 0}
            body |= {"rebalanceTimeoutMs": rng.choice([5000, 60_000]), "topicPartitions": []}
            body["subscribedTopicNames"] = self.names()
            body["instanceId"] = rng.choice([None, None, *INSTANCES])
            if rng.random() < 0.15:
                body["subscribedTopicRegex"] = rng.choice(["t.*", ".*", "none", ""])
            return body
        member = rng.choice(members)
        body = {"groupId": group, "memberId": member.member_id, "memberEpoch": member.epoch}
        body["instanceId"] = member.metadata.instance_id
        kind = rng.random()
        if kind < 0.12:
            body["memberEpoch"] = -2 if body["instanceId"] is not None and rng.random() < 0.6 else -1
        elif kind < 0.3:
            body["subscribedTopicNames"] = self.names()
        if rng.random() < 0.6:
            body["topicPartitions"] = [
                {"topicId": str(topic), "partitions": list(partitions)} for topic, partitions in member.assigned.items()
            ]
        return body

    def _share_group_heartbeat(self, version: int) -> Json:
        rng = self.rng
        group = self._group(ShareGroup) if rng.random() < 0.5 else "share"
        state = self.state.get(group)
        members = list(state.members.values()) if isinstance(state, ShareGroup) else []
        if not members or rng.random() < 0.3:
            names = self.names(1)
            return {"groupId": group, "memberId": rng.choice(MEMBERS), "memberEpoch": 0, "subscribedTopicNames": names}
        member = rng.choice(members)
        epoch = -1 if rng.random() < 0.1 else member.epoch
        return {"groupId": group, "memberId": member.member_id, "memberEpoch": epoch}

    def _streams_group_heartbeat(self, version: int) -> Json:
        rng = self.rng
        group = self._group(StreamsGroup) if rng.random() < 0.5 else "streams"
        state = self.state.get(group)
        members = list(state.members.values()) if isinstance(state, StreamsGroup) else []
        if not members or rng.random() < 0.3:
            if group not in self.topologies or rng.random() < 0.1:
                self.topologies[group] = random_topology(rng, group, rng.choice([0, 1]), TOPICS)
            body: Json = {"groupId": group, "memberId": rng.choice(MEMBERS), "memberEpoch": 0, **NO_TASKS}
            body |= {"rebalanceTimeoutMs": rng.choice([5000, 60_000]), "processId": rng.choice(["p1", "p2"])}
            return {**body, "topology": self.topologies[group], "instanceId": rng.choice([None, None, *INSTANCES])}
        member = rng.choice(members)
        body = {"groupId": group, "memberId": member.member_id, "memberEpoch": member.epoch}
        body["instanceId"] = member.instance_id
        if rng.random() < 0.12:
            body["memberEpoch"] = -2 if body["instanceId"] is not None and rng.random() < 0.6 else -1
        elif rng.random() < 0.6:
            for role, tasks in zip(NO_TASKS, (member.assigned.active, member.assigned.standby, {}), strict=True):
                body[role] = [{"subtopologyId": one, "partitions": sorted(tasks[one])} for one in sorted(tasks)]
        return body

    def _streams_group_describe(self, version: int) -> Json:
        return {"groupIds": [*self.groups, "streams", "nothing"]}

    def _streams_group_topology_description_update(self, version: int) -> Json:
        return {"groupId": self._group(StreamsGroup), "memberId": self.rng.choice(MEMBERS), "topologyEpoch": 0}

    def _identity(self, group: str) -> tuple[str, str | None, int]:
        """Return the member id, instance id, and epoch or generation of some member of a group."""
        state = self.state.get(group)
        if isinstance(state, ConsumerGroup) and state.members:
            member = self.rng.choice(list(state.members.values()))
            return member.member_id, member.metadata.instance_id, member.epoch
        if isinstance(state, StreamsGroup) and state.members:
            task_runner = self.rng.choice(list(state.members.values()))
            return task_runner.member_id, task_runner.instance_id, task_runner.epoch
        if isinstance(state, LiveGroup) and (state.members or state.pending):
            ids = [*state.members, *state.pending]
            member_id = self.rng.choice(ids)
            known = state.members.get(member_id)
            return member_id, None if known is None else known.group_instance_id, state.generation
        return "", None, -1

    def _join_group(self, version: int) -> Json:
        rng = self.rng
        group = self._group()
        member, instance, _ = self._identity(group)
        if not member or rng.random() < 0.3:
            member, instance = "", rng.choice([None, None, None, *INSTANCES]) if version >= 5 else None
        names = rng.choice([["range"], ["range"], ["range", "roundrobin"], ["roundrobin"]])
        metadata = subscription(*self.names(), version=rng.choice([0, 1, 2, 3, 3]))
        return {
            "groupId": group,
            "memberId": member,
            "groupInstanceId": instance,
            "sessionTimeoutMs": rng.choice([10_000, 30_000]),
            "rebalanceTimeoutMs": rng.choice([5000, 10_000, 30_000]),
            "protocolType": "consumer",
            "protocols": [{"name": name, "metadata": metadata} for name in names],
        }

    def _sync_group(self, version: int) -> Json:
        group = self._group()
        member, instance, generation = self._identity(group)
        state = self.state.get(group)
        body: Json = {"groupId": group, "memberId": member, "groupInstanceId": instance, "generationId": generation}
        if isinstance(state, LiveGroup):
            body |= {"protocolType": state.protocol_type or None, "protocolName": state.protocol}
            if state.leader == member:
                data = assignment({"t0": [0]}, version=self.rng.choice([0, 3]))
                body["assignments"] = [{"memberId": member_id, "assignment": data} for member_id in state.members]
        elif isinstance(state, ConsumerGroup):
            body |= {"protocolType": "consumer", "protocolName": "range"}
        return body

    def _heartbeat(self, version: int) -> Json:
        group = self._group()
        member, instance, generation = self._identity(group)
        return {"groupId": group, "memberId": member, "groupInstanceId": instance, "generationId": generation}

    def _leave_group(self, version: int) -> Json:
        group = self._group()
        member, instance, _ = self._identity(group)
        if version < 3:
            return {"groupId": group, "memberId": member}
        leaving = [(member, instance)]
        while self.rng.random() < 0.3:
            member, instance, _ = self._identity(group)
            leaving.append((member, instance))
        return {
            "groupId": group,
            "members": [{"memberId": member, "groupInstanceId": instance} for member, instance in leaving],
        }

    def _topics(self, by_id: bool, partition: Callable[[], Any]) -> list[Json]:
        """Return topics with partitions; `by_id`: whether topics have ids instead of names."""
        rng = self.rng
        topics = []
        for name in rng.choices(TOPICS, k=rng.choice([1, 1, 1, 2, 3])):
            key = {"topicId": self.topics.get(name, GONE_ID)} if by_id else {"name": name}
            topics.append({**key, "partitions": [partition() for _ in range(rng.choice([1, 1, 2, 3]))]})
        return topics

    def _offset(self) -> Json:
        rng = self.rng
        part: Json = {"partitionIndex": rng.choice([0, 0, 1, 2, 3]), "committedOffset": rng.choice([0, 7, 99])}
        part["committedMetadata"] = rng.choice(["", "", None, "note", "ü🚀", "x" * 11, "x" * 5000])
        return part

    def _owned_offsets(self, group: str, by_id: bool) -> list[Json]:
        """Return offsets of partitions of a topic, some of which a member owns."""
        state = self.state.get(group)
        members = state.members.values() if isinstance(state, ConsumerGroup) else ()
        names = {topic_id: name for name, topic_id in self.topics.items()}
        owned = [
            (str(topic), list(partitions))
            for member in members
            for topic, partitions in member.assigned.items()
            if str(topic) in names
        ]
        if not owned:
            return self._topics(by_id, self._offset)
        topic_id, partitions = self.rng.choice(owned)
        key = {"topicId": topic_id} if by_id else {"name": names[topic_id]}
        drawn = [self.rng.choice([*partitions, *partitions, 0, 1, 5]) for _ in range(self.rng.choice([1, 2, 3]))]
        return [{**key, "partitions": [{**self._offset(), "partitionIndex": partition} for partition in drawn]}]

    def _epoch(self, epoch: int) -> int:
        return epoch + self.rng.choice([0, 0, 0, 0, -1, -1, -2, 1]) if self.rng.random() < 0.5 else epoch

    def _offset_commit(self, version: int) -> Json:
        group = self._group()
        member, instance, epoch = self._identity(group)
        owned = self.rng.random() < 0.4
        if self.rng.random() < 0.15:
            member, instance, epoch = "", None, -1
        by_id = version >= 10
        return {
            "groupId": group,
            "memberId": member,
            "groupInstanceId": instance,
            "generationIdOrMemberEpoch": self._epoch(epoch),
            "topics": self._owned_offsets(group, by_id) if owned else self._topics(by_id, self._offset),
        }

    def _txn_offset_commit(self, version: int) -> Json:
        group = self._group()
        member, instance, epoch = self._identity(group)
        owned = self.rng.random() < 0.4
        if self.rng.random() < 0.3:
            member, instance, epoch = "", None, -1
        producer = self.rng.choice([1, 2, 3, 2**33 + 1])
        by_id = version >= 6
        return {
            "transactionalId": f"x{producer}",
            "groupId": group,
            "producerId": producer,
            "producerEpoch": self.producers.get(producer, 0),
            "memberId": member,
            "groupInstanceId": instance,
            "generationIdOrMemberEpoch": self._epoch(epoch),
            "topics": self._owned_offsets(group, by_id) if owned else self._topics(by_id, self._offset),
        }

    def _offset_fetch(self, version: int) -> Json:
        rng = self.rng
        topics = [
            {
                **({"topicId": topic["topicId"]} if "topicId" in topic else {"name": topic["name"]}),
                "partitionIndexes": topic["partitions"],
            }
            for topic in self._topics(version >= 10, lambda: rng.randrange(4))
        ]
        requested = None if rng.random() < 0.4 and version >= 2 else topics
        stable = {"requireStable": rng.random() < 0.5} if version >= 7 else {}
        if version < 8:
            return {"groupId": self._group(), "topics": requested, **stable}
        groups = []
        for _ in range(rng.choice([1, 1, 2])):
            group = self._group()
            body: Json = {"groupId": group, "topics": requested}
            if version >= 9 and rng.random() < 0.6:
                member, _, epoch = self._identity(group)
                body |= {"memberId": member, "memberEpoch": self._epoch(epoch)}
            groups.append(body)
        return {"groups": groups, **stable}

    def _offset_delete(self, version: int) -> Json:
        topics = self._topics(False, lambda: {"partitionIndex": self.rng.randrange(4)})
        return {"groupId": self._group(), "topics": topics}

    def _delete_groups(self, version: int) -> Json:
        return {"groupsNames": [self._group() for _ in range(self.rng.choice([1, 1, 2, 3]))]}

    def _describe_groups(self, version: int) -> Json:
        return {"groups": [*self.groups, "share", "nothing"]}

    def _consumer_group_describe(self, version: int) -> Json:
        return {"groupIds": [*self.groups, "nothing"]}

    def _share_group_describe(self, version: int) -> Json:
        return {"groupIds": [*self.groups, "share", "nothing"]}

    def _list_groups(self, version: int) -> Json:
        return {}

    # Anything that the schema allows

    def _replace(self, spec: MessageSpec, body: Json, version: int) -> None:
        """Replace one field, at any depth."""
        fields = [field for field in spec.fields if version in field.versions]
        if not fields:
            return None
        field = self.rng.choice(fields)
        elements = body.get(field.json_name)
        if isinstance(field.type, ArrayType) and elements and self.rng.random() < 0.6:
            kind = self.rng.random()
            if isinstance(field.type.element, StructType) and kind < 0.6:
                return self._replace(field.type.element.spec, self.rng.choice(elements), version)
            if kind < 0.8:  # a duplicate element
                elements.insert(
                    self.rng.randrange(len(elements) + 1), json.loads(json.dumps(self.rng.choice(elements)))
                )
                return None
        if self.rng.random() < 0.1:
            body.pop(field.json_name, None)
        else:
            body[field.json_name] = self.value(field, version)
        return None
