"""Stray folders: those of partitions that are not in the cluster's metadata.

A crash may have cut a change short, or the metadata is incomplete.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from quorate.cluster.storage.log_files import topic_id_of
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.log.files import partition_of


@dataclass(frozen=True, slots=True)
class Stray:
    """A stray folder. `stays`: it is not renamed. `lost`: the data that lost metadata refers to."""

    folder: Path
    stays: bool = False
    lost: str = ""
    detail: str = ""


def strays(
    brokers: Iterable[Path],
    owners: Mapping[tuple[str, int], Sequence[int]],
    *,
    removed: Collection[str],
    metadata_is_complete: bool,
) -> Iterator[Stray]:
    """Yield the folders of partitions that are not in `owners` (partition → brokers with replicas).

    Folders of deleted topics (`removed`: their ids), of incomplete topics and of moved replicas can
    be renamed. Other folders have records. They stay if the metadata is complete
    (`metadata_is_complete`); otherwise it has lost their topics. Raises `OSError`.
    """
    for broker in brokers:
        number = int(broker.name.removeprefix("broker-"))
        for folder in sorted(broker.iterdir()):
            key = partition_of(folder)
            if key is None or not folder.is_dir():
                continue
            owned = owners.get(key)
            if owned is not None and number in owned:
                continue
            size = sum(path.stat().st_size for path in folder.glob("*.log"))
            topic_id = str(topic_id_of(folder))
            moved = owned is not None and _is_linked(folder, broker.with_name(f"broker-{owned[0]}") / folder.name)
            if topic_id in removed or moved or (not size and metadata_is_complete):
                yield Stray(folder)
            elif owned is not None or metadata_is_complete or not size:
                yield Stray(folder, stays=True)
            else:
                detail = f"the cluster's metadata has no topic {key[0]} with id {topic_id}"
                yield Stray(folder, lost=f"the {size:,} bytes in it", detail=detail)


def _is_linked(folder: Path, to: Path) -> bool:
    """Return whether all files of a folder are hard links to files of another folder."""
    twins = ((path, to / path.name) for path in folder.iterdir())
    return all(twin.exists() and twin.samefile(path) for path, twin in twins)
