"""What the command prints on stderr."""

from quorate.cli.errors import UserError, note


def test_what_others_named_does_not_act_on_the_terminal(capsys):
    """Messages quote names of topics, groups and files, which others chose (issue 14)."""
    UserError("topic a\x1b[2J is missing", "remove \x07b\nor rename it").show()
    note("group \x1b]0;title\x07")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == ("error: topic a\\x1b[2J is missing\n       remove \\x07b\nor rename it\ngroup \\x1b]0;title\\x07\n")
