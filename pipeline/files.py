"""Plan what a query on files reads: find partitions, and the pieces of their segments."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from quorate.codecs.errors import QuorateError
from quorate.codecs.log.files import PartitionFiles, find_partitions, looks_like_a_broker, partition_of
from quorate.codecs.log.model import LogError
from quorate.codecs.log.transactions import Transactions
from quorate.codecs.records import RECORD_TYPES
from quorate.pipeline.files_survey import Piece, Surveyed, survey
from quorate.pipeline.options import EARLIEST, LATEST, Options
from quorate.pipeline.schema import OptionError

__all__ = ["DataLoss", "Piece", "bundled", "check_offset", "find_files", "has_copies", "offset_of", "plan"]

T = TypeVar("T")

AT_ONCE: Final = 8
"""Number of concurrent surveys of partitions; these mostly wait for the file system."""


class DataLoss(QuorateError, RuntimeError):
    """Requested offsets are no longer in the log."""


def find_files(options: Options) -> list[PartitionFiles]:
    """Return the partitions under the paths of the options, sorted.

    Raises `OptionError` for unsupported paths, and `LogError` if no partition is found.
    """
    found: dict[tuple[str, int | None, Path], PartitionFiles] = {}
    for given in options.paths:
        for path in _expanded(given):
            _check_topic(path, options)
            for files in find_partitions(path, topic=options.topic):
                if not options.wants(files.partition):
                    continue
                folder = files.segments[0].path.absolute().parent if files.segments else path.absolute()
                place = (files.topic, files.partition, folder)
                before = found.get(place)
                if before is not None:  # segments of one folder, given one by one
                    more = {segment.path: segment for segment in (*before.segments, *files.segments)}
                    segments = tuple(sorted(more.values(), key=lambda segment: segment.base_offset))
                    files = replace(before, segments=segments)
                found[place] = files
    if not found:
        raise LogError(f"{', '.join(options.paths)}: has none of the requested partitions (option partitions)")
    if not any(files.segments or files.problems for files in found.values()):
        names = ", ".join(f"{topic}-{number}" for topic, number, _ in list(found)[:10])
        raise LogError(f"{', '.join(options.paths)}: has no segments; it has {names} without segments")
    return [found[place] for place in sorted(found, key=lambda one: (one[0], -1 if one[1] is None else one[1], one[2]))]


def _check_topic(path: Path, options: Options) -> None:
    """Reject the folder of a partition of another topic, and its segments.

    With the option `topic`, they are read as that topic.
    """
    folder = (path.parent if path.is_file() else path).absolute()
    name, _ = partition_of(folder) or (options.topic, 0)
    is_topic = name in RECORD_TYPES or looks_like_a_broker(folder.parent)
    if name != options.topic and is_topic and not options.is_topic_given:
        raise LogError(f"{path}: is of {name}, not of {options.topic}; name another folder, or set the option topic")


def has_copies(files: Collection[PartitionFiles]) -> bool:
    """Return whether two folders have the same partition, which may be copies."""
    return len({(file.topic, file.partition) for file in files}) < len(files)


def _expanded(given: str) -> list[Path]:
    parts = urlsplit(given)
    if parts.scheme == "file":
        given = unquote(parts.path)
    elif parts.scheme and "://" in given:
        raise OptionError(
            f"path {given!r}: executors read local files only; for {parts.scheme}:// use "
            'spark.read.format("binaryFile") and quorate.pipeline.decode_segments, or mount it'
        )
    if not has_magic(given) or Path(given).exists():
        return [Path(given)]
    found = [Path(path) for path in sorted(glob(given))]  # noqa: PTH207  # a pattern may be absolute
    if not found:
        raise LogError(f"{given}: no file or folder matches")
    # A glob may match files next to segments, such as indexes: ignore these.
    segments = [path for path in found if path.is_dir() or path.suffix == ".log"]
    if not segments:
        raise LogError(f"{given}: none of the {len(found)} files is a segment (.log)")
    return segments


# ---- from partitions to pieces


def plan(
    options: Options,
    partitions: Iterable[PartitionFiles],
    *,
    within: tuple[int | None, int | None] = (None, None),
    settled: bool = False,
    tail: bool = True,
) -> Iterator[Piece]:
    """Return the pieces that the options select, limited to offsets `within`.

    `settled` and `tail` have the meaning that they have for `survey`. Raises `DataLoss`.
    """

    def pieces(files: PartitionFiles) -> list[Piece]:
        return list(_pieces_of(files, options, within, settled, tail))

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="quorate-survey") as executor:
        for found in executor.map(pieces, partitions):
            yield from found


def _pieces_of(
    files: PartitionFiles, options: Options, within: tuple[int | None, int | None], settled: bool, tail: bool
) -> Iterator[Piece]:
    if files.problems:
        yield Piece(
            topic=files.topic,
            partition=files.partition,
            path=Path(),
            begin=0,
            end=0,
            size_bytes=0,
            first_offset=0,
            next_offset=0,
            problems=files.problems,
        )
    start = offset_of(options.starting_offsets, files.partition)
    end = offset_of(options.ending_offsets, files.partition)
    if start == LATEST:
        return
    low = max((one for one in (start, within[0]) if one is not None and one != EARLIEST), default=None)
    high = min((one for one in (end, within[1]) if one is not None and one != LATEST), default=None)
    found = survey(
        files,
        read_committed=options.read_committed,
        max_split_bytes=options.max_split_bytes,
        start=low,
        end=high,
        settled=settled,
        tail=tail,
    )
    for name, offset in (("startingOffsets", start), ("endingOffsets", end)):
        if offset >= 0 and options.fail_on_data_loss:
            place = f"{files.topic}-{files.partition}"
            check_offset(place, name, offset, found.start_offset, found.next_offset)
    since = -1 if options.starting_timestamp is None else options.starting_timestamp
    for piece in found.pieces:
        if piece.newest_ms < since:
            continue
        yield replace(
            piece,
            transactions=_of_piece(found, piece),
            start_offset=low,
            end_offset=high,
            ordered=found.ordered,
        )


def check_offset(place: str, name: str, offset: int, first: int, following: int) -> None:
    """Raise `DataLoss` for an offset that is not from `first` to `following`, those of a log."""
    if not first <= offset <= following:
        raise DataLoss(
            f"{place}: offset {offset:,} of {name} is not in the log, which has {first:,} to {following:,}; "
            "failOnDataLoss=false reads the available offsets"
        )


def offset_of(offsets: Mapping[int | None, int], partition: int | None) -> int:
    """Return the offset that an option sets for a partition."""
    return offsets[partition] if partition in offsets else offsets[None]


def _of_piece(found: Surveyed, piece: Piece) -> Transactions:
    """Return the aborted transactions that affect a piece; all if its offsets are unordered."""
    if not found.ordered:
        return found.transactions
    aborted = {}
    for producer_id, spans in found.transactions.aborted.items():
        few = [span for span in spans if span[1] > piece.first_offset and span[0] < piece.next_offset]
        if few:
            aborted[producer_id] = few
    return Transactions(aborted, found.transactions.last_stable_offset)


def bundled(parts: Iterable[T], size_of: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Group consecutive parts whose total size is at most `most`; a larger part stays alone."""
    bundle: list[T] = []
    size = 0
    for part in parts:
        if bundle and size + size_of(part) > most:
            yield bundle
            bundle, size = [], 0
        bundle.append(part)
        size += size_of(part)
    if bundle:
        yield bundle
