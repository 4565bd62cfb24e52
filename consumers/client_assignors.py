"""Client-side assignors of KIP-848: a consumer assigns the partitions of its whole group.

The consumers of a group announce assignors. The coordinator selects one that all of them support,
and one consumer that runs it. No release of Kafka has this; quorate's coordinators do, with
`group.consumer.client.assignors.enable`.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quorate.assignors import Assignor, Member, Topology
from quorate.assignors.prepared import error_request, members_and_topology
from quorate.codecs import Uuid
from quorate.codecs.api import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    api_of,
    encode_api,
)
from quorate.codecs.api.consumer_group_install_assignment import InstalledMember, InstalledTopicPartitions
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.client_assignors import AssignedMetadata, ClientAssignor
from quorate.codecs.errors import InputError, QuorateError
from quorate.codecs.message import Message
from quorate.consumers.actions import AssignmentReceived, Partition, Partitions
from quorate.consumers.states import known_error

__all__ = [
    "AssignmentFailed",
    "AssignorMetadata",
    "ConsumerAssignor",
    "MemberAssignment",
    "OfferedAssignors",
    "next_step",
]

log = logging.getLogger(__name__)

NO_NAMES = "use instances, such as [RangeAssignor()]; group_remote_assignor takes the name of a brokers' assignor"

UNKNOWN_FAILURE = 1
"""The error code that members receive if an assignor raises any other exception."""


class AssignmentFailed(QuorateError):
    """Raised by an assignor that cannot assign. All members receive its `code`, from 1 to 127."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message or f"error code {code} of the assignor")
        self.code = code


@dataclass(frozen=True, slots=True)
class AssignorMetadata:
    """A consumer's input for the assignor. Any change starts a rebalance.

    `reason`: a code of the assignor that says why it changed. `version`: of the format of `data`.
    """

    data: bytes = b""
    version: int = 0
    reason: int = 0


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """Partitions of a member, and metadata that it receives with them."""

    partitions: Iterable[Partition]
    metadata: bytes = b""


class ConsumerAssignor(ABC):
    """A client-side assignor. Subclasses define `name` and `assign`.

    `minimum_version`, `maximum_version`: of metadata that it understands.
    """

    name: str
    minimum_version = 0
    maximum_version = 0

    def metadata(self) -> AssignorMetadata:
        """Return this consumer's input for the assignor. Each poll of the consumer calls it."""
        return AssignorMetadata()

    @abstractmethod
    def assign(
        self, group: Mapping[str, Member], topics: Topology
    ) -> Mapping[str, Iterable[Partition] | MemberAssignment]:
        """Return the partitions `(topic, number)` of each member id; members may be left out.

        `group`: member id → member; its `user_data` is the member's metadata, `owned` its previous
        target assignment. Runs in a thread of its own. Any exception fails the assignment:
        the group keeps the previous one. `AssignmentFailed` has an error code for all members.
        """

    def on_assignment(  # noqa: B027 - optional
        self, partitions: Partitions, metadata: AssignedMetadata, epoch: int
    ) -> None:
        """Receive this consumer's assignment, in the thread that polls.

        `metadata` is what `assign` returned for it; its `error` is the code of a failed assignment.
        """


class _Existing(ConsumerAssignor):
    """One of quorate's assignors, such as `lag-aware`."""

    def __init__(self, assignor: Assignor) -> None:
        if assignor.name == "cooperative-sticky":
            raise InputError(
                "client_assignors: cooperative-sticky withholds moving partitions for one rebalance",
                "use StickyAssignor: the coordinator moves partitions in two steps",
            )
        self.name = assignor.name
        self._assignor = assignor

    def assign(self, group: Mapping[str, Member], topics: Topology) -> Mapping[str, Iterable[Partition]]:
        return self._assignor.assign(group, topics)


def _listed(assignors: object) -> Iterable[object]:
    if isinstance(assignors, str) or not isinstance(assignors, Iterable):
        raise InputError(f"client_assignors: {assignors!r} is no list of assignors", NO_NAMES)
    return assignors


class OfferedAssignors:
    """The assignors of one consumer, in order of preference.

    Raises `InputError` for two with one name, for `cooperative-sticky`, and for other objects.
    """

    def __init__(self, assignors: Iterable[ConsumerAssignor | Assignor]) -> None:
        self._assignors: dict[str, ConsumerAssignor] = {}
        for given in _listed(assignors):
            if not isinstance(given, ConsumerAssignor | Assignor):
                raise InputError(f"client_assignors: {given!r} is no assignor", NO_NAMES)
            one = _Existing(given) if isinstance(given, Assignor) else given
            if one.name in self._assignors:
                raise InputError(f"client_assignors: two assignors have the name {one.name!r}", "rename one")
            self._assignors[one.name] = one

    def __bool__(self) -> bool:
        return bool(self._assignors)

    def announced(self) -> tuple[ClientAssignor, ...]:
        """Return what heartbeats announce."""
        return tuple(_announced(assignor) for assignor in self._assignors.values())

    def on_assignment(self, received: AssignmentReceived, name_of: Callable[[Uuid], str | None]) -> None:
        """Pass an assignment to the assignor that computed it.

        `name_of`: returns a topic's name, if it is known.
        """
        metadata = received.metadata
        assert metadata is not None
        if metadata.error:
            log.warning("Assignor %s failed with its error code %d", metadata.assignor, metadata.error)
        assignor = self._assignors.get(metadata.assignor)
        if assignor is not None:
            partitions = sorted(
                (topic, number)
                for topic_id, numbers in received.partitions.items()
                if (topic := name_of(topic_id)) is not None
                for number in numbers
            )
            assignor.on_assignment(tuple(partitions), metadata, received.member_epoch)

    def compute(self, *, group_id: str, member_id: str, member_epoch: int) -> Generator[Message, Any, None]:
        """Compute and install the assignment of the group: yield requests, receive responses.

        The first step yields a request at once, the second one runs the assignor. An assignment
        that is no longer expected is dropped: the group has changed since.
        """
        ids = {"group_id": group_id, "member_id": member_id, "member_epoch": member_epoch}
        prepared = yield ConsumerGroupPrepareAssignmentRequest(**ids)  # type: ignore[arg-type]
        assert isinstance(prepared, ConsumerGroupPrepareAssignmentResponse)
        if prepared.error_code:
            log.info("No assignment for group %s: %s", group_id, known_error(prepared.error_code).name)
            return
        name = prepared.assignor_name
        try:
            request = self._computed(prepared, group_id, member_id, member_epoch)
            encode_api(request, api_of(type(request)).versions[-1])  # raises for values of a wrong type
        except Exception as error:
            log.exception("Assignor %s failed for group %s", name, group_id)
            code = error.code if isinstance(error, AssignmentFailed) else UNKNOWN_FAILURE
            yield error_request(prepared, code, group_id=group_id, member_id=member_id, member_epoch=member_epoch)
            return
        response = yield request
        assert isinstance(response, ConsumerGroupInstallAssignmentResponse)
        if response.error_code == ErrorCode.INVALID_ASSIGNMENT:
            # Without this, the coordinator requests the same assignment again and again.
            log.error("Assignment of %s for group %s is not valid: %s", name, group_id, response.error_message)
            yield error_request(
                prepared, UNKNOWN_FAILURE, group_id=group_id, member_id=member_id, member_epoch=member_epoch
            )
        elif response.error_code:
            log.info("Assignment for group %s dropped: %s", group_id, known_error(response.error_code).name)

    def _computed(
        self, prepared: ConsumerGroupPrepareAssignmentResponse, group_id: str, member_id: str, member_epoch: int
    ) -> ConsumerGroupInstallAssignmentRequest:
        assignor = self._assignors[prepared.assignor_name]
        members, topology = members_and_topology(prepared)
        assigned = assignor.assign(members, topology)
        ids = {topic.topic_name: topic.topic_id for topic in prepared.topics}
        installed = []
        for member in sorted({*members, *assigned}):
            one = assigned.get(member, ())
            result = one if isinstance(one, MemberAssignment) else MemberAssignment(one)
            by_topic: dict[str, list[int]] = {}
            for topic, number in result.partitions:
                by_topic.setdefault(topic, []).append(number)
            if unknown := by_topic.keys() - ids.keys():
                raise AssignmentFailed(UNKNOWN_FAILURE, f"{member} was assigned {min(unknown)}, which does not exist")
            installed.append(
                InstalledMember(
                    member_id=member,
                    topic_partitions=tuple(
                        InstalledTopicPartitions(topic_id=ids[topic], partitions=tuple(sorted(numbers)))
                        for topic, numbers in by_topic.items()
                    ),
                    metadata_version=prepared.maximum_version if result.metadata else 0,
                    metadata=result.metadata,
                )
            )
        return ConsumerGroupInstallAssignmentRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=member_epoch,
            group_epoch=prepared.group_epoch,
            members=tuple(installed),
        )


def next_step(steps: Generator[Message, Any, None], response: Message) -> Message | None:
    """Return the request after this response; `None` after the last one."""
    try:
        return steps.send(response)
    except StopIteration:
        return None


def _announced(assignor: ConsumerAssignor) -> ClientAssignor:
    metadata = assignor.metadata()
    return ClientAssignor(
        name=assignor.name,
        minimum_version=assignor.minimum_version,
        maximum_version=assignor.maximum_version,
        reason=metadata.reason,
        metadata_version=metadata.version,
        metadata=metadata.data,
    )
