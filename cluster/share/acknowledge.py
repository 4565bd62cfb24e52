"""Acknowledgements of acquired records, and their release (KIP-932, KIP-1222).

An acknowledgement fails as a whole if one of its records is not acquired by the member. The
messages are Kafka's.
"""

from collections.abc import Sequence
from typing import NamedTuple

from quorate.cluster.share.in_flight import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    NO_MEMBER,
    InFlightBatch,
    InFlightState,
    RecordState,
)
from quorate.cluster.share.partition import SharePartition, Transition
from quorate.cluster.share.store import (
    DELIVERED_TOO_OFTEN,
    REJECTED,
    ShareError,
    ShareOutcome,
    ShareRequestFailed,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.results import Pending

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""Types of acknowledgements. A gap is an offset without a record."""

_STATES: dict[int, RecordState] = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}


class Acknowledgement(NamedTuple):
    """Acknowledged offsets, inclusive. `types`: one for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


def acknowledge(partition: SharePartition, member_id: str, some: Sequence[Acknowledgement]) -> Pending[ShareOutcome]:
    """Acknowledge records of a member. The result comes when the states are stored.

    Raises `ShareRequestFailed` where Kafka does. Transitions of acknowledgements before that one
    have begun, and never end.
    """
    done: Pending[ShareOutcome] = Pending()
    transitions: list[Transition] = []
    try:
        for one in some:
            if any(not GAP <= kind <= RENEW for kind in one.types):
                text = ", ".join(map(str, one.types))
                raise ShareError(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: [{text}]")
            if one.last >= partition.start_offset:
                for batch in _batches(partition, one):
                    if batch.last >= partition.start_offset:
                        _acknowledge_batch(partition, member_id, one, batch, transitions)
    except ShareError as error:
        partition.roll_back(transitions)
        done.complete(error.outcome)
        return done
    partition.store(transitions, done)
    return done


def _batches(partition: SharePartition, one: Acknowledgement) -> list[InFlightBatch]:
    """Return the batches with acknowledged offsets.

    Kafka's `fetchSubMapForAcknowledgementBatch` throws a NullPointerException if the offsets begin
    before the start offset, end at or after it, and no batch in flight begins at or before it.
    """
    floor = partition.in_flight.floor(one.first)
    if floor is None and one.first < partition.start_offset:
        floor = partition.in_flight.floor(partition.start_offset)
        if floor is None:
            raise ShareRequestFailed(f"no batch is in flight at the start offset {partition.start_offset}")
    if floor is None:
        raise _invalid_state("Batch record not found. The request batch offsets are not found in the cache.")
    batches = partition.in_flight.between(floor.first, one.last)
    if batches[-1].last < one.first:
        raise ShareError(
            ErrorCode.INVALID_REQUEST, "Batch record not found. The first offset in request is past acquired records."
        )
    if batches[-1].last < one.last:
        raise ShareError(
            ErrorCode.INVALID_REQUEST, "Batch record not found. The last offset in request is past acquired records."
        )
    return batches


def _acknowledge_batch(
    partition: SharePartition,
    member_id: str,
    one: Acknowledgement,
    batch: InFlightBatch,
    transitions: list[Transition],
) -> None:
    whole = batch.whole
    if whole is not None:
        if whole.member_id == NO_MEMBER:
            raise _invalid_state("The batch cannot be acknowledged. The batch is not in the acquired state.")
        if whole.member_id != member_id:
            raise _invalid_state("Member is not the owner of batch record")
        _check_transition(whole)
    is_part = not batch.is_inside(one.first, one.last) or batch.first < partition.start_offset
    if whole is not None and not is_part and len(one.types) == 1:
        if whole.state is not ACQUIRED:
            raise _invalid_state("The batch cannot be acknowledged. The batch is not in the acquired state.")
        _acknowledge_state(partition, batch.first, batch.last, whole, one.types[0], transitions)
        return
    if whole is not None:
        if whole.state is not ACQUIRED:
            raise _invalid_state("The batch cannot be acknowledged. The subset batch is not in the acquired state.")
        partition.split(batch)
    for offset in range(max(batch.first, one.first, partition.start_offset), min(batch.last, one.last) + 1):
        state = batch.offsets[offset]
        if state.state is not ACQUIRED:
            raise _invalid_state("The offset cannot be acknowledged. The offset is not acquired.")
        _check_transition(state)
        if state.member_id != member_id:
            raise _invalid_state("Member is not the owner of offset")
        kind = one.types[offset - one.first] if len(one.types) > 1 else one.types[0]
        _acknowledge_state(partition, offset, offset, state, kind, transitions)


def _acknowledge_state(
    partition: SharePartition,
    first: int,
    last: int,
    state: InFlightState,
    kind: int,
    transitions: list[Transition],
) -> None:
    """Begin the transition of a batch or offset, or renew its lock."""
    if kind == RENEW:
        if not partition.configs().renew_acknowledge_enable:
            raise _invalid_state("Renewing acquisition locks is not enabled for the group.")
        state.unlock()
        state.lock = partition.lock(first, last)
        return
    buries = kind == REJECT and partition.dead_letters.enabled()
    to, cause = (ARCHIVING, REJECTED) if buries else (_STATES[kind], DELIVERED_TOO_OFTEN)
    transition = partition.begin(first, last, state, to, cause)
    if transition is None:
        raise _invalid_state("Unable to acknowledge records for the batch")
    transitions.append(transition)


def release_acquired(partition: SharePartition, member_id: str) -> Pending[ShareOutcome]:
    """Release all records that a member has acquired, because its session ends."""
    done: Pending[ShareOutcome] = Pending()
    transitions: list[Transition] = []
    for batch in partition.in_flight:
        if batch.whole is not None and batch.whole.member_id == member_id:
            partition.split_at_start(batch)
        for first, last, state in batch.states():
            if state.member_id not in (member_id, NO_MEMBER) or state.state is not ACQUIRED:
                continue
            to = ARCHIVED if last < partition.start_offset else AVAILABLE
            transition = partition.begin(first, last, state, to)
            if transition is None:
                partition.roll_back(transitions)
                what = "batch" if batch.whole is not None else "offset"
                outcome = _invalid_state(f"Unable to release acquired records for the {what}").outcome
                done.complete(outcome)
                return done
            transitions.append(transition)
    partition.store(transitions, done)
    return done


def _check_transition(state: InFlightState) -> None:
    if state.in_transition:
        raise _invalid_state("The record state is invalid. The acknowledgement of delivery could not be completed.")


def _invalid_state(message: str) -> ShareError:
    return ShareError(ErrorCode.INVALID_RECORD_STATE, message)
