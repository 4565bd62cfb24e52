"""The fixtures `oracle` (Kafka's own classes) and `broker`."""

from tests.broker.fixtures import broker_of_group as broker_of_group
from tests.oracle.fixtures import oracle as oracle
