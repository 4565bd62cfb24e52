"""Lags in time, read from records, sample after sample."""

from contextlib import closing

from quorate.cluster import EmbeddedCluster
from quorate.watch.lags import TimestampReader
from tests.integration.test_watch import LIMIT_S, produce

T0 = 1_790_000_000_000


def test_each_sample_reads_the_last_records_again():
    """Partitions of which a sample has all that it needs are paused until the next one."""
    wanted = {(("orders", number), 0) for number in (0, 1)}
    with EmbeddedCluster(seed=1) as kafka, closing(TimestampReader(kafka.bootstrap_servers, {}, 10_000)) as reader:
        kafka.create_topic("orders", partitions=2)
        for sample in range(1, 4):
            at_ms = T0 + 1_000 * sample
            produce(kafka, "orders", {0: [at_ms], 1: [at_ms, at_ms + 7]})
            ends = reader.ends({place for place, _ in wanted})
            found = reader.lags(wanted, ends, LIMIT_S if sample == 1 else 10)
            passed_ms = 1_000 * (sample - 1)
            assert found.of == {(("orders", 0), 0): passed_ms, (("orders", 1), 0): passed_ms + 7}
            assert found.missing == 0
