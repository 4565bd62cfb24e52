"""Record the folder of a partition from a real broker: tests/data/broker_folder.tar.xz.

It contains plain, idempotent and transactional batches.

.venv/bin/python -m tests.cluster.helpers.broker_folder    (in the root; needs a container engine)
"""

import tarfile
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from confluent_kafka import Producer

from quorate.integration import KafkaCluster

TOPIC = "orders"
PACKED = Path(__file__).resolve().parents[2] / "data" / "broker_folder.tar.xz"
_NOW_MS = 1_790_000_000_000
_DAY_MS = 86_400_000


def main() -> None:
    """Record it again.

    Values are compressible, and timestamps jump, so that segments roll by size and by time.
    """
    random = Random(1)
    at_ms = _NOW_MS
    with KafkaCluster(racks=["a"]) as cluster:
        cluster.create_topic(
            TOPIC, partitions=1, config={"segment.bytes": str(1 << 20), "segment.ms": str(7 * _DAY_MS)}
        )
        common = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1}
        plain = Producer(common)
        idempotent = Producer({**common, "enable.idempotence": True})
        transactional = Producer({**common, "transactional.id": "t"})
        transactional.init_transactions(30)
        for turn in range(150):
            at_ms += random.choice((0, 1000, _DAY_MS // 4))
            transactional.begin_transaction()
            for producer in (plain, idempotent, transactional):
                for _ in range(random.randrange(1, 12)):
                    value = b"%d " % turn * random.randrange(700)
                    producer.produce(TOPIC, value, timestamp=at_ms - random.randrange(5000))
                producer.flush(300)
            if turn == 149:
                break  # the last transaction stays open
            (transactional.commit_transaction if turn % 4 else transactional.abort_transaction)(20)
        with TemporaryDirectory() as copied:
            folder = cluster.copy_segments(Path(copied), TOPIC) / f"{TOPIC}-0"
            newest = max(folder.glob("*.log")).stem
            with tarfile.open(PACKED, "w:xz") as packed:
                for path in sorted(folder.iterdir()):
                    if path.stem != newest or path.suffix in (
                        ".log",
                        ".snapshot",
                    ):  # brokers preallocate 10 MB for indexes
                        packed.add(path, path.name, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    plain = tarfile.TarInfo(member.name)
    plain.size = member.size
    return plain


if __name__ == "__main__":
    main()
