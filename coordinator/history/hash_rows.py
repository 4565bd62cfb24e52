"""Rows of metadata hashes: of topics, and computed next to stored hashes of groups."""

from collections.abc import Iterable, Iterator
from typing import Any

from quorate.codecs.printable import hash_text
from quorate.coordinator.history.hashes import HashExplanation, explain, hashes_of, topic_differences
from quorate.coordinator.history.replay import ReplayedGroups
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.metadata_hash import HashAlgorithm, group_hash
from quorate.coordinator.state import ConsumerGroup, ShareGroup, StreamsGroup

Row = dict[str, Any]


def topic_hash_rows(names: Iterable[str], image: MetadataImage, form: HashAlgorithm) -> Iterator[Row]:
    """Yield a row per topic."""
    for name, value in hashes_of(names, image, form).items():
        topic = image.topics[name]
        yield {
            "topic": name,
            "id": str(topic.id),
            "partitions": topic.partitions,
            "racks": [list(racks) for racks in image.racks(topic)],
            "metadata_hash": value,
            "hex": hash_text(value),
        }


def group_hash_rows(found: ReplayedGroups, image: MetadataImage, form: HashAlgorithm) -> Iterator[Row]:
    """Yield a row per consumer, share and streams group.

    `verdict`: same; differs; none (a group without members has no hash, or no hash and no record of
    type 4 is stored). `differences`: what has changed since the hash was stored, if it can be
    found.
    """
    racks = set(_racks_of_members(found))
    for one in found.groups:
        group = one.history.state.groups[one.view.group_id]
        if not isinstance(group, ConsumerGroup | ShareGroup | StreamsGroup):
            continue
        names = group.topics if isinstance(group, StreamsGroup) else group.topic_subscribers.keys()
        topics = hashes_of(sorted(names), image, form)
        computed = group_hash(topics, form)
        changes: list[Row] = []
        verdict = "same" if group.metadata_hash == computed else "differs"
        stored = hash_text(group.metadata_hash) if group.metadata_hash else ""
        record = group.partition_metadata if isinstance(group, ConsumerGroup) else None
        if not group.metadata_hash and record is not None:
            stored = "record of type 4"
            found_changes = list(topic_differences(record, names, image))
            verdict = "differs" if found_changes else "same"
            changes = [
                _change(change.kind.value, change.sentence, change.topic, change.partition) for change in found_changes
            ]
        elif verdict == "differs":
            if group.metadata_hash:
                changes = [_explanation_row(explain(group.metadata_hash, names, image, form, racks=racks))]
            else:
                verdict = "none"
        yield {
            "group": group.group_id,
            "type": group.kind.value,
            "group_epoch": group.epoch,
            "stored_hash": group.metadata_hash,
            "stored": stored,
            "computed_hash": computed,
            "computed": hash_text(computed) if topics else "",
            "topics": {name: hash_text(value) for name, value in topics.items()},
            "missing_topics": sorted(names - topics.keys()),
            "verdict": verdict,
            "differences": changes,
            "log_partition": one.partition,
        }


def _racks_of_members(found: ReplayedGroups) -> Iterator[str]:
    """Yield the racks of members, where brokers may have been, too."""
    for state in {id(one.history): one.history.state for one in found.groups}.values():
        for group in state.groups.values():
            if isinstance(group, ConsumerGroup | ShareGroup | StreamsGroup):
                known = (member.metadata for member in group.members.values() if member.metadata is not None)
                yield from (metadata.rack_id for metadata in known if metadata.rack_id)


def _change(kind: str, sentence: str, topic: str | None = None, partition: int | None = None) -> Row:
    return {"kind": kind, "sentence": f"when it was stored, {sentence}", "topic": topic, "partition": partition}


def _explanation_row(explanation: HashExplanation) -> Row:
    change = explanation.change
    if change is None:
        how = f"none of {explanation.tried:,} tested changes" if explanation.tried else "no tested change"
        more = "" if explanation.complete else "; not all changes were tested"
        return {
            "kind": "unexplained",
            "sentence": f"the stored hash differs from that of its topics, and {how} explains it{more}",
            "topic": None,
            "partition": None,
        }
    if change.kind.value == "form":
        return {"kind": "form", "sentence": change.sentence, "topic": None, "partition": None}
    return _change(change.kind.value, change.sentence, change.topic, change.partition)
