"""Groups of commands: the list in the help, and suggestions for unknown commands."""

import pytest


@pytest.mark.parametrize("group", ["cluster", "demo", "groups", "hash", "pipeline"])
def test_commands_are_listed_with_complete_sentences(quorate, group):
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
def test_an_unknown_command_suggests_the_closest_match(quorate, arguments, said):
    ended = quorate(*arguments)
    assert (ended.status, ended.out) == (1, "")
    where = " ".join([*arguments[:-1], "--help"])
    error, remedy = ended.err.splitlines()
    assert error == f"error: {said}"
    assert remedy.startswith("       for help: ")
    assert remedy.endswith(f" {where}")


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
def test_wrong_options_refer_to_the_help_of_their_command(quorate, arguments, command):
    ended = quorate(*arguments)
    assert ended.status == 1
    assert ended.err.splitlines()[1].endswith(f" {command} --help")


@pytest.mark.parametrize("number", ["nan", "inf", "-1"])
@pytest.mark.parametrize(
    "command",
    [("groups", "list", "-b", "h:1", "--watch"), ("pipeline", "locality", "x", "--price-per-gb")],
)
def test_numbers_are_finite_and_in_their_range(quorate, command, number):
    done = quorate(*command, number)
    assert done.status == 1
    error, remedy = done.err.splitlines()
    assert error.startswith(f"error: Invalid value for '{command[-1]}': ")
    assert ("is not in the range" if number == "-1" else f"'{number}' is not a finite number") in error
    assert remedy.startswith("       for help: ")
