"""Producers: sequence numbers (KIP-98), transactions (KIP-98, KIP-890)."""

from collections.abc import Iterator
from typing import NamedTuple

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import Batch, BatchHeader, read_batches
from quorate.integration.verify_client.exchanges import Exchange
from quorate.integration.verify_client.rule import GRACE_S, RETRIABLE, Evidence, Findings, client_rule, rules_in

_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_TRANSACTIONS_V2 = 12
"""The first version of Produce with which brokers add partitions to a transaction (KIP-890)."""
_IN_FLIGHT = 5


class _Sent(NamedTuple):
    partition: int
    header: BatchHeader
    exchange: Exchange
    error: ErrorCode | None  # None: no response


def _batches(seen: Evidence) -> Iterator[_Sent]:
    for one in seen.of("Produce"):
        errors = {
            part.index: ErrorCode(part.error_code) for part in seen.partitions(getattr(one.response, "responses", ()))
        }
        for part in seen.partitions(one.request.topic_data):
            for batch in read_batches(bytes(part.records or b"")):
                if isinstance(batch, Batch):
                    yield _Sent(part.index, batch.header, one, errors.get(part.index))


@client_rule("KIP-98", "An idempotent producer numbers its records without gaps, by partition and epoch.")
def sequences_without_gap(seen: Evidence, found: Findings) -> None:
    following: dict[tuple[int, int, int], int] = {}
    for sent in _batches(seen):
        header = sent.header
        if header.base_sequence < 0:
            continue
        key = (sent.partition, header.producer_id, header.producer_epoch)
        expected = following.get(key, 0)
        found.check(
            header.base_sequence <= expected,
            f"partition {sent.partition} with sequence {header.base_sequence}, expected {expected}",
            sent.exchange,
        )
        following[key] = max(expected, header.last_sequence + 1)


@client_rule("KIP-98", "A batch that is sent again has the same sequence and the same records.")
def same_batch_is_sent_again(seen: Evidence, found: Findings) -> None:
    earlier: dict[tuple[int, int, int, int], _Sent] = {}
    for sent in _batches(seen):
        header = sent.header
        if header.base_sequence < 0:
            continue
        key = (sent.partition, header.producer_id, header.producer_epoch, header.base_sequence)
        before = earlier.setdefault(key, sent)
        if before is not sent:
            same = before.header.count == header.count
            found.check(
                same,
                f"sequence {header.base_sequence} with {header.count} records, before with {before.header.count}",
                before.exchange,
                sent.exchange,
            )


@client_rule("KIP-98", "A batch without response, or with a retriable error, is sent again with its sequence.")
def failed_batch_is_sent_again(seen: Evidence, found: Findings) -> None:
    batches = [sent for sent in _batches(seen) if sent.header.base_sequence >= 0]
    for number, sent in enumerate(batches):
        one = sent.exchange
        lost = sent.error is None and one.link.closed_s is not None and one.request.acks != 0
        if not lost and sent.error not in RETRIABLE:
            continue
        failed_s = one.responded_s or one.link.closed_s or one.at_s
        if seen.stop_s(one.link) - failed_s < 5:
            continue
        again = [
            each
            for each in batches[number + 1 :]
            if (each.partition, each.header.base_sequence) == (sent.partition, sent.header.base_sequence)
            and each.header.producer_id == sent.header.producer_id
        ]
        newer = [each for each in batches[number + 1 :] if each.header.producer_epoch > sent.header.producer_epoch]
        problem = f"sequence {sent.header.base_sequence} of partition {sent.partition} is not sent again"
        found.check(again or newer, problem, one)


@client_rule("KAFKA-5494", "An idempotent producer has at most 5 requests in flight on a connection.")
def at_most_5_requests_in_flight(seen: Evidence, found: Findings) -> None:
    open_requests: dict[int, list[Exchange]] = {}
    for sent in seen.of("Produce"):
        waiting = [
            one
            for one in open_requests.get(sent.link.number, ())
            if (one.responded_s is None or one.responded_s > sent.at_s) and one.request.acks != 0
        ]
        idempotent = any(
            isinstance(batch, Batch) and batch.header.producer_id >= 0
            for part in seen.partitions(sent.request.topic_data)
            for batch in read_batches(bytes(part.records or b""))
        )
        if idempotent:
            found.check(len(waiting) < _IN_FLIGHT, f"{len(waiting) + 1} requests in flight", *waiting[:1], sent)
        open_requests[sent.link.number] = [*waiting, sent]


def _failure(one: Exchange) -> ErrorCode | None:
    return next(iter(one.errors & _FENCED), None)


@client_rule("KIP-98", "A producer that was fenced sends nothing more with its producer epoch.")
def stops_after_being_fenced(seen: Evidence, found: Findings) -> None:
    apis = ("Produce", "AddPartitionsToTxn", "EndTxn", "TxnOffsetCommit")
    sent = [(one, _producer(seen, one)) for one in seen.of(*apis)]
    fenced: dict[tuple[int, int], Exchange] = {}
    for one, producer in sent:
        if producer is not None and _failure(one) is not None and one.request is not None:
            fenced.setdefault(producer, one)
    for producer, one in fenced.items():
        late = [
            each
            for each, other in sent
            if other == producer and each.at_s > (one.responded_s or one.at_s) + GRACE_S and each.api != "EndTxn"
        ]
        found.check(not late, "a fenced producer continues", one, *late[:2])


def _producer(seen: Evidence, one: Exchange) -> tuple[int, int] | None:
    """Return producer id and epoch of a transactional request."""
    wanted = one.request
    if one.api == "Produce":
        if wanted.transactional_id is None:
            return None
        for part in seen.partitions(wanted.topic_data):
            for batch in read_batches(bytes(part.records or b"")):
                if isinstance(batch, Batch):
                    return batch.header.producer_id, batch.header.producer_epoch
        return None
    if one.api == "AddPartitionsToTxn":
        if one.version >= 4:
            return next(((each.producer_id, each.producer_epoch) for each in wanted.transactions), None)
        return wanted.v3_and_below_producer_id, wanted.v3_and_below_producer_epoch
    return wanted.producer_id, wanted.producer_epoch


@client_rule("KIP-98", "A partition is added to the transaction before records are sent to it, before KIP-890.")
def partition_is_added_before_its_records(seen: Evidence, found: Findings) -> None:
    added: dict[tuple[int, int], set[int]] = {}
    for one in seen.of("AddPartitionsToTxn", "Produce", "EndTxn"):
        producer = _producer(seen, one)
        if producer is None:
            continue
        if one.api == "EndTxn":
            added.pop(producer, None)
        elif one.api == "AddPartitionsToTxn":
            wanted = one.request
            topics = [each for txn in wanted.transactions for each in txn.topics] or wanted.v3_and_below_topics
            if not one.errors and one.response is not None:
                for topic in topics:
                    if topic.name == seen.topic:
                        added.setdefault(producer, set()).update(topic.partitions)
        elif one.version < _TRANSACTIONS_V2 and _failure(one) is None:
            for part in seen.partitions(one.request.topic_data):
                known = part.index in added.get(producer, ())
                found.check(known, f"records for partition {part.index}, which is not in the transaction", one)


@client_rule("KIP-98", "A transaction is committed only after all of its records were acknowledged.")
def commit_after_all_records(seen: Evidence, found: Findings) -> None:
    produced = [(one, _producer(seen, one)) for one in seen.of("Produce")]
    for one in seen.of("EndTxn"):
        if not one.request.committed:
            continue
        producer = (one.request.producer_id, one.request.producer_epoch)
        waiting = [
            each
            for each, other in produced
            if other == producer
            and each.at_s < one.at_s
            and (each.link.closed_s is None or each.link.closed_s > one.at_s)
            and (each.responded_s is None or each.responded_s > one.at_s)
        ]
        found.check(not waiting, "a commit while records are not acknowledged", *waiting[:1], one)


@client_rule("KIP-360", "Records have the newest epoch that the producer was given.")
def producer_has_its_newest_epoch(seen: Evidence, found: Findings) -> None:
    given: list[tuple[float, int, int, Exchange]] = []
    for one in seen.of("InitProducerId", "EndTxn"):
        if one.response is not None and not one.errors and one.responded_s is not None:
            epoch = getattr(one.response, "producer_epoch", -1)
            if epoch >= 0:
                given.append((one.responded_s, one.response.producer_id, epoch, one))
    for sent in _batches(seen):
        known = [
            each for each in given if each[0] < sent.exchange.at_s - GRACE_S and each[1] == sent.header.producer_id
        ]
        if known:
            newest = max(known, key=lambda each: each[2])
            problem = f"records with epoch {sent.header.producer_epoch}; the producer has {newest[2]}"
            found.check(sent.header.producer_epoch >= newest[2], problem, newest[3], sent.exchange)


PRODUCING_RULES = rules_in(globals())
