"""Client-side assignors in the history of a group."""

from quorate.codecs import LogEntry
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.client_assignors import ClientAssignor
from quorate.coordinator.history import events, view
from quorate.coordinator.log import StoredRecord
from tests.coordinator.client_assignors.scene import Scene
from tests.coordinator.log_entries import log_entry


def entries(scene: Scene) -> list[LogEntry]:
    return [
        log_entry(one.record, one.offset, one.timestamp_ms) for one in scene.log.stored if isinstance(one, StoredRecord)
    ]


def test_history_has_the_computing_member_and_the_reason() -> None:
    scene = Scene()
    scene.join("A")
    scene.advance(1_000)
    assert scene.compute("A") is ErrorCode.NONE
    scene.advance(1_000)
    scene.beat("A", client_assignors=(ClientAssignor(name="mine", maximum_version=2, reason=4, metadata=b"lags"),))
    scene.advance(1_000)
    prepared = scene.prepare("A")
    assert scene.install("A", {}, error=9, group_epoch=prepared.group_epoch) is ErrorCode.NONE
    scene.settle()
    reported = [str(fact) for event in events(entries(scene)) for fact in event.facts]
    assert "target assignment of epoch 2, computed by A with mine: " in " ".join(reported)
    assert (
        "group epoch 2 → 3 because client-side assignors of member A changed "
        "from mine (versions 0–2, version 0, reason 0) "
        "to mine (versions 0–2, version 0, reason 4, 4 bytes of metadata fa11eb56)"
    ) in reported
    assert "target assignment of epoch 3, computed by A with mine: error 9, no partition moves" in reported


def test_view_has_the_assignor_of_the_target() -> None:
    scene = Scene()
    scene.join("A")
    assert view(scene.group).assignor is None
    scene.compute("A")
    seen = view(scene.group)
    assert (seen.assignor, seen.computed_by, seen.assignor_error) == ("mine", "A", 0)
    assert seen.members["A"].client_assignors == ("mine (versions 0–2, version 0, reason 0)",)
    scene.join("B", assignors=())
    assert (view(scene.group).assignor, view(scene.group).computed_by) == (None, None)
