"""The fixture `oracle`: Kafka's own classes."""

from tests.oracle.fixtures import oracle as oracle
