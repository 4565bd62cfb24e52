"""Groups of commands: how they list these, and what they say of one that is not there."""

import pytest


@pytest.mark.parametrize("group", ["cluster", "demo", "groups", "hash", "pipeline"])
def test_every_command_is_listed_with_a_whole_sentence(quorate, group):
    shown = quorate(group, "--help").out.partition("\nCommands:\n")[2]
    assert shown
    assert "..." not in shown
    assert " ".join(shown.split()).endswith(".")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["decod"], "No such command 'decod'; did you mean 'decode'?"),
        (["groups", "member"], "No such command 'member'; did you mean 'members'?"),
        (["cluster", "start"], "No such command 'start'; did you mean 'start-broker'?"),
        (["hash", "grup"], "No such command 'grup'; did you mean 'group'?"),
        (["zzz"], "No such command 'zzz'."),
    ],
    ids=str,
)
def test_a_command_that_is_not_there_is_answered_with_the_likest(quorate, arguments, said):
    ended = quorate(*arguments)
    assert (ended.status, ended.out) == (1, "")
    where = " ".join([*arguments[:-1], "--help"])
    error, remedy = ended.err.splitlines()
    assert error == f"error: {said}"
    assert remedy.endswith(f" {where}` shows what there is")


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["encode", "--topic"], "encode"),
        (["groups", "list", "logs", "--group"], "groups list"),
        (["cluster", "restart-broker", "--rack"], "cluster restart-broker"),
        (["encode", "--part", "key", "--message", "X", "{}"], "encode"),
    ],
    ids=str,
)
def test_mistakes_in_options_point_at_the_help_of_their_command(quorate, arguments, command):
    ended = quorate(*arguments)
    assert ended.status == 1
    assert ended.err.splitlines()[1].endswith(f" {command} --help` shows what there is")
