"""The fixtures `oracle` (Kafka's own classes) and `broker`."""

from tests.broker.fixtures import broker_of_folder as broker_of_folder
from tests.oracle.fixtures import oracle as oracle
