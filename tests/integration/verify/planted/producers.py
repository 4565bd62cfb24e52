"""Producers with planted faults: `python producers.py producer|transactions [FAULT…]`."""

import sys
import time
from typing import Any

from wire import BACKOFF_S, FAULTS, TOPIC, TRANSACTIONAL_ID, Stop, Wire, once

from quorate.codecs.api.broker import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest
from quorate.codecs.api.broker.add_partitions_to_txn import AddPartitionsToTxnTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchRecord, encode_batch

VERSION = 9
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class Producer:
    """An idempotent producer with one batch in flight, to partition 0."""

    transactional_id: str | None = None

    def __init__(self) -> None:
        self.wire = Wire()
        self.wire.refresh()
        self.stop = Stop()
        self.began = time.monotonic()
        self.id = self.epoch = -1
        self.sequence = 0

    def begin(self) -> None:
        """Get a producer id."""
        while self.id < 0:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
            response = self.wire.any_broker(request, 4)
            if not response.error_code:
                self.id, self.epoch = response.producer_id, response.producer_epoch

    def request(self, count: int) -> ProduceRequest:
        records = [
            BatchRecord(offset=number, timestamp_ms=int(time.time() * 1000), key=None, value=b"v")
            for number in range(count)
        ]
        data = encode_batch(
            records,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=self.transactional_id is not None,
        )
        part = PartitionProduceData(index=0, records=data)
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=5_000,
            topic_data=(TopicProduceData(name=TOPIC, partition_data=(part,)),),
        )

    def send(self, count: int = 2) -> ErrorCode:
        """Send a batch until a broker has acknowledged it, or fenced the producer."""
        request = self.request(count)
        while True:
            response = self.wire.ask(self.wire.leaders[0], request, VERSION)
            code = ErrorCode.NETWORK_EXCEPTION
            if response is not None:
                code = ErrorCode(response.responses[0].partition_responses[0].error_code)
            if code in FENCED or code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
                return code
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                break
            if code is ErrorCode.NETWORK_EXCEPTION and "forget-batch" in FAULTS:
                break
            time.sleep(BACKOFF_S)
            self.wire.refresh()
            if once("change-batch"):
                count += 1
                request = self.request(count)
        self.sequence += count
        return ErrorCode.NONE

    def flood(self) -> None:
        """Send seven batches at the same time."""
        connection = self.wire.connection(self.wire.leaders[0])
        for _ in range(7):
            connection.send(self.request(1), VERSION)
            self.sequence += 1
        for _ in range(7):
            connection.frame()

    def run(self) -> None:
        """Produce until SIGTERM."""
        self.begin()
        while not self.stop:
            if time.monotonic() > self.began + 1 and once("flood"):
                self.flood()
            if time.monotonic() > self.began + 1 and once("gap"):
                self.sequence += 3
                self.send()
                self.sequence -= 3
            self.send()
            time.sleep(0.02)


class Transactions(Producer):
    """A transactional producer, of the protocol before KIP-890."""

    transactional_id = TRANSACTIONAL_ID

    def coordinated(self, request: Any, version: int) -> Any:
        """Send a request to the transaction coordinator until it is accepted or fenced."""
        while True:
            response = self.wire.ask(self.wire.find(TRANSACTIONAL_ID, 1), request, version, "transactions")
            code = getattr(response, "error_code", None)
            for topic in getattr(response, "results_by_topic_v3_and_below", ()):
                code = topic.results_by_partition[0].partition_error_code
            if response is not None and (not code or code in FENCED or code == ErrorCode.INVALID_TXN_STATE):
                return code
            self.wire.coordinator = None
            time.sleep(BACKOFF_S)

    def begin(self) -> None:
        while True:
            broker = self.wire.find(TRANSACTIONAL_ID, 1)
            request = InitProducerIdRequest(
                transactional_id=TRANSACTIONAL_ID,
                transaction_timeout_ms=30_000,
                producer_id=self.id,
                producer_epoch=self.epoch,
            )
            response = self.wire.ask(broker, request, 4, "transactions")
            if response is not None and not response.error_code:
                self.epoch = response.producer_epoch
                self.id, self.sequence = response.producer_id, 0
                return
            self.wire.coordinator = None
            time.sleep(BACKOFF_S)

    def add(self) -> Any:
        topic = AddPartitionsToTxnTopic(name=TOPIC, partitions=(0,))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=(topic,),
        )
        return self.coordinated(request, 3)

    def end(self) -> Any:
        request = EndTxnRequest(
            transactional_id=TRANSACTIONAL_ID, producer_id=self.id, producer_epoch=self.epoch, committed=True
        )
        return self.coordinated(request, 3)

    def transaction(self) -> bool:
        """Commit a transaction; return False if the producer was fenced."""
        late = time.monotonic() > self.began + 1
        if late and once("no-add"):
            self.send()
        code = self.add()
        if code in FENCED:
            return False
        if code:
            self.begin()
            return True
        if late and "early-commit" in FAULTS:
            connection = self.wire.connection(self.wire.leaders[0])
            connection.send(self.request(1), VERSION)
            time.sleep(0.1)  # so that it arrives first
            self.end()
            connection.frame()
            self.begin()
            return True
        return self.send() not in FENCED and self.end() not in FENCED

    def run(self) -> None:
        self.begin()
        while not self.stop:
            if time.monotonic() > self.began + 1 and once("old-producer-epoch"):
                before = self.epoch
                self.begin()
                time.sleep(0.7)
                self.epoch, newest = before, self.epoch
                self.send()
                self.epoch = newest
            if not self.transaction() and "continue-fenced" not in FAULTS:
                return
            time.sleep(0.05)


if __name__ == "__main__":
    {"producer": Producer, "transactions": Transactions}[sys.argv[1]]().run()
