"""The fixtures `oracle` and `oracle_4_0`: Kafka's own classes of two releases."""

from tests.oracle.fixtures import oracle as oracle
from tests.oracle.fixtures import oracle_4_0 as oracle_4_0
