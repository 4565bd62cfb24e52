"""The fixture `oracle`, which runs Kafka's own classes."""

from tests.oracle.fixtures import oracle as oracle
