"""`quorate groups remove-member`: options, confirmation, and members of an embedded cluster.

tests/integration/test_remove_members.py runs it with all clients, also on Kafka brokers.
"""

import json
import sys
from types import SimpleNamespace

import pytest

from quorate.assignors.adapters import kafka_python
from quorate.cluster import EmbeddedCluster
from quorate.cluster.faults import Error
from quorate.codecs.api.error_codes import ErrorCode
from quorate.integration import group_members
from tests.assignors.adapters import live

SERVER = ("-b", "127.0.0.1:9", "--group", "web")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--group", "web", "--all"), "remove-member needs a live cluster (-b)"),
        (("-b", "127.0.0.1:9", "--all"), "Missing option '--group'"),
        (SERVER, "give either --instance-id and --member-id, or --all"),
        ((*SERVER, "--all", "--instance-id", "i"), "give either --instance-id and --member-id, or --all"),
        ((*SERVER, "--instance-id", ""), "the name of a group or of a member is empty"),
        ((*SERVER, "--instance-id", "i="), "the name of a group or of a member is empty"),
        ((*SERVER, "--member-id", "m", "--reason", "x" * 256), "--reason has 256 characters; at most 255 are sent"),
        ((*SERVER, "--member-id", "m", "--connect-timeout-ms", "300"), "127.0.0.1:9"),
    ],
)
def test_options_are_checked(quorate, options, complaint):
    ended = quorate("groups", "remove-member", *options)
    assert (ended.status, ended.out) == (1, "")
    assert complaint in ended.err


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=4)
        yield cluster


@pytest.fixture
def member(cluster, request):
    """A static member of a group of its own, whose consumer has ended."""
    group = request.node.name.replace("[", "-").replace("]", "")
    config = {"group_instance_id": "i0", "session_timeout_ms": 45_000, **cluster.client_config}
    adapter = kafka_python.CooperativeSticky()
    with live.KafkaPython(cluster, group, ["orders"], adapter, **config) as consumer:
        live.wait_for(lambda: len(consumer.assigned) == 4, consumer)
    return group


def shown(quorate, cluster, group, *options):
    ended = quorate("groups", "remove-member", "-b", cluster.bootstrap_servers, "--group", group, *options)
    return ended.status, ended.out.split(), ended.err


def test_the_reason_is_sent(quorate, cluster, member, monkeypatch):
    reasons = []
    leave = group_members._leave

    def noted(admin, group_id, members):
        reasons.extend(one.reason for one in members)
        return leave(admin, group_id, members)

    monkeypatch.setattr(group_members, "_leave", noted)
    assert shown(quorate, cluster, member, "--instance-id", "i0", "--reason", "moved")[0] == 0
    assert shown(quorate, cluster, member, "--instance-id", "i0")[0] == 1
    assert reasons == ["moved", "member was removed by an admin"]


@pytest.mark.parametrize(("response", "status"), [("y", 0), ("n", 1)])
def test_all_members_are_removed_after_confirmation(quorate, cluster, member, monkeypatch, response, status):
    monkeypatch.setattr("quorate.cli.groups.remove.sys", _Terminal())
    ended = quorate(
        "groups", "remove-member", "-b", cluster.bootstrap_servers, "--group", member, "--all", stdin=f"{response}\n"
    )
    assert f"Remove the member of group {member}? [y/N]" in ended.err
    assert ended.status == status
    left = json.loads(quorate("groups", "members", "-b", cluster.bootstrap_servers, "--group", member, "--json").out)
    assert len(left) == (status != 0)


class _Terminal:
    class stdin:  # noqa: N801 - the name in sys
        @staticmethod
        def isatty():
            return True


def test_all_needs_yes_without_a_terminal(quorate, cluster, member):
    assert not sys.stdin.isatty()
    status, _, err = shown(quorate, cluster, member, "--all")
    assert (status, f"--all would remove 1 member of group {member}" in err) == (1, True)
    assert shown(quorate, cluster, member, "--all", "--yes")[0] == 0
    status, out, err = shown(quorate, cluster, member, "--all", "--yes")
    assert (status, out, err) == (0, [], f"group {member} has no members\n")


def test_a_request_that_fails_as_a_whole_names_the_permission(quorate, cluster, member):
    cluster.faults.add(Error(ErrorCode.GROUP_AUTHORIZATION_FAILED), api="LeaveGroup", times=1)
    status, out, err = shown(quorate, cluster, member, "--instance-id", "i0")
    assert (status, out) == (1, [])
    assert "removing members of group" in err
    assert "READ on the group is required" in err


def test_a_close_match_is_suggested_for_a_group_that_does_not_exist(quorate, cluster, member):
    status, out, err = shown(quorate, cluster, member[:-1], "--instance-id", "i0")
    assert (status, out[-1]) == (1, "UNKNOWN_MEMBER_ID")
    assert f"group {member[:-1]} does not exist" in err
    assert f"did you mean {member}" in err
    status, _, err = shown(quorate, cluster, f"{member[:-1]}?", "--all", "--yes")  # no glob
    assert (status, f"group {member[:-1]}? does not exist" in err) == (1, True)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], ("group web does not exist", "no groups are visible")),
        ([("other", "Classic")], ("group web does not exist", "existing groups: other")),
        ([("web", "Share")], ("web is a share group, whose members cannot be removed", "stop the client")),
        ([("web", "Consumer")], ("", "")),
        ([("web", None)], ("", "")),
    ],
)
def test_why_a_group_has_no_such_member(groups, expected):
    admin = SimpleNamespace(list_groups=lambda: [{"group_id": name, "group_type": kind} for name, kind in groups])
    assert group_members._why_unknown(admin, "web") == expected
