"""Folders of partitions that a cluster does not have: left over from a change that a crash cut short, or a sign that it is the metadata that is lost."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quorate.cluster.storage.log_files import topic_id_of
from quorate.codecs.log.files import partition_of

__all__ = ["Stray", "strays"]


@dataclass(frozen=True, slots=True)
class Stray:
    """A folder. `stays`: it is left where it is; `lost`: what the metadata has lost, if it has."""

    folder: Path
    stays: bool = False
    lost: str = ""
    detail: str = ""


def strays(
    brokers: Iterable[Path],
    owners: Mapping[tuple[str, int], Sequence[int]],
    *,
    removed: Collection[str],
    knows_all_topics: bool,
) -> Iterator[Stray]:
    """What is to be done with folders of partitions that are not in `owners`, which has the brokers with replicas of each.

    Raises `OSError`.

    `removed`: ids of topics that were deleted: their folders can be set aside, as those of topics
    whose creation was cut short, and of replicas that were moved. Others have records. If the
    metadata is whole (`knows_all_topics`), they stay; if not, it has lost them.
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
            if topic_id in removed or moved or (not size and knows_all_topics):
                yield Stray(folder)
            elif owned is not None or knows_all_topics or not size:
                yield Stray(folder, stays=True)
            else:
                detail = f"the cluster's metadata has no topic {key[0]} with id {topic_id}"
                yield Stray(folder, lost=f"the {size:,} bytes in it", detail=detail)


def _is_linked(folder: Path, to: Path) -> bool:
    """Whether all that is in a folder is in another one, too, by the same names."""
    twins = ((path, to / path.name) for path in folder.iterdir())
    return all(twin.exists() and twin.samefile(path) for path, twin in twins)
