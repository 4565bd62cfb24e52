"""The fixtures `oracle`, `oracle_4_3` and `oracle_4_0`: Kafka's own classes of three releases."""

from tests.oracle.fixtures import oracle as oracle
from tests.oracle.fixtures import oracle_4_0 as oracle_4_0
from tests.oracle.fixtures import oracle_4_3 as oracle_4_3
