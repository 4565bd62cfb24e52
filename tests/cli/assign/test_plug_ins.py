"""`quorate assign` with server-side assignors that are plug-ins."""

import sys

import pytest

from tests.cli.assign.fixtures import described as described
from tests.cli.assign.fixtures import outcomes as outcomes

SOURCE = """
class Mine:
    name = "mine"

    def __init__(self, last: bool = False) -> None:
        self.last = last

    def assign(self, group_spec, topic_describer):
        chosen = (max if self.last else min)(group_spec.member_ids)
        topics = group_spec.member_subscription(chosen).subscribed_topic_ids
        local = group_spec.member_subscription(chosen).rack_id
        return {
            chosen: {
                topic_id: [
                    partition
                    for partition in range(topic_describer.num_partitions(topic_id))
                    if local in topic_describer.racks_for_partition(topic_id, partition)
                ]
                for topic_id in topics
            }
        }

class Open(Mine):
    def __init__(self, last: bool = False, *others, **named) -> None:
        super().__init__(last)

class Fails(Mine):
    def assign(self, group_spec, topic_describer):
        raise LookupError("no model")
"""


@pytest.fixture(autouse=True)
def _in_a_project(tmp_path, monkeypatch):
    (tmp_path / "plug_in_of_cli.py").write_text(SOURCE)
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[quorate.server_assignors]\nmine = plug_in_of_cli:Mine\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.delitem(sys.modules, "plug_in_of_cli", raising=False)


def owned(outcome):
    return outcome["assignment"]


def test_a_plug_in_in_the_current_folder_is_compared_with_others(outcomes, described):
    found = outcomes(described(), "--assignor", "plug_in_of_cli:Mine", "--assignor", "uniform")
    assert found["plug_in_of_cli:Mine"]["side"] == "server"
    assert owned(found["plug_in_of_cli:Mine"]) == {"m1": {"t": [0, 1]}, "m2": {}}
    with_option = "plug_in_of_cli:Mine:last"
    assert owned(outcomes(described(), "--assignor", with_option)[with_option]) == {"m1": {}, "m2": {"t": [2, 3]}}


def test_an_installed_plug_in_has_a_name_and_is_usual_for_groups_that_use_it(outcomes, described, monkeypatch):
    monkeypatch.syspath_prepend(".")
    assert owned(outcomes(described(), "--assignor", "mine")["mine"]) == {"m1": {"t": [0, 1]}, "m2": {}}
    group = described(protocol="consumer", assignor="mine")
    assert list(outcomes(group))[:3] == ["current", "mine", "uniform"]


@pytest.mark.parametrize(
    ("assignor", "complaint"),
    [
        ("mine", "unknown assignor\n       use one of range, "),
        ("plug_in_of_cli:Gone", "cannot load plug_in_of_cli:Gone: AttributeError"),
        ("no.such:Thing", "cannot load no.such:Thing: ModuleNotFoundError: No module named 'no'"),
        ("plug_in_of_cli:Mine:first", "plug_in_of_cli:Mine has no option first\n       its options: last"),
        ("plug_in_of_cli:Open:named", "plug_in_of_cli:Open has no option named\n       its options: last"),
        ("plug_in_of_cli:SOURCE:first", "cannot load plug_in_of_cli:SOURCE"),
    ],
)
def test_a_plug_in_that_does_not_load_is_reported(quorate, described, assignor, complaint):
    ended = quorate("assign", described(), "--assignor", assignor)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith(f"error: --assignor {assignor}: ")
    assert complaint in ended.err


def test_a_module_that_prints_when_it_is_imported_prints_to_stderr(quorate, described, tmp_path):
    with (tmp_path / "plug_in_of_cli.py").open("a") as module:
        module.write("\nprint('imported')\n")
    ended = quorate("assign", described(), "--assignor", "plug_in_of_cli:Mine", "--json")
    assert ended.status == 0
    assert "imported" not in ended.out
    assert "imported" in ended.err


def test_a_fault_of_a_plug_in_is_reported_without_a_traceback(quorate, described):
    ended = quorate("assign", described(), "--assignor", "plug_in_of_cli:Fails")
    assert ended.status == 1
    assert "assignor mine (plug_in_of_cli:Fails) raised LookupError: no model" in ended.err
    assert "Traceback" not in ended.err
