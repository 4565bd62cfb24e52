"""kafka-python's consumers with our assignors, among themselves and with Java's, on a real broker."""

import pytest

from quorate.assignors.adapters import kafka_python
from tests.assignors.adapters.live import Java, KafkaPython, create_topic, produced, spread, wait_for
from tests.broker.fixtures import broker as broker

pytestmark = pytest.mark.oracle


def partitions(topic, count):
    return [(topic, number) for number in range(count)]


def test_members_share_a_topic_by_range(broker):
    create_topic(broker, "range-t", 4)
    with KafkaPython(broker, "range-g", ["range-t"], kafka_python.Range(), client_rack="a") as one:
        wait_for(lambda: len(one.assigned) == 4, one)
        with KafkaPython(broker, "range-g", ["range-t"], kafka_python.Range(client_rack="b")) as two:
            wait_for(lambda: len(one.assigned) == len(two.assigned) == 2, one, two)
            assert spread(one, two) == partitions("range-t", 4)
        wait_for(lambda: len(one.assigned) == 4, one)
