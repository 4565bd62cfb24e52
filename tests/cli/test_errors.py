"""Output of the command to stderr."""

from quorate.cli.errors import UserError, note


def test_control_characters_in_messages_are_escaped(capsys):
    """Issue 14: messages quote names of topics, groups and files."""
    UserError("topic a\x1b[2J is missing", "remove \x07b\nor rename it").show()
    note("group \x1b]0;title\x07")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == ("error: topic a\\x1b[2J is missing\n       remove \\x07b\nor rename it\ngroup \\x1b]0;title\\x07\n")
