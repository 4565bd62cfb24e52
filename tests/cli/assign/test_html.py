"""The page of `quorate assign --html`: well-formed, self-contained, escaped, correct figures."""

import json
import re
from html.parser import HTMLParser

import pytest

VOID = {"meta", "br", "link", "img", "input", "hr"}
TAGS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "p",
        "strong",
        "ul",
        "li",
        "span",
        "div",
        "section",
        "a",
    ),
    *("table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td"),
}


class Page(HTMLParser):
    """Checks that elements are closed in order; collects tables, texts and attributes."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open = []
        self.tags = set()
        self.attributes = []
        self.tables = []
        self.text = ""
        self.titles = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append((tag, dict(attributes)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append(["", dict(attributes).get("class", "")])

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        opened, _ = self.open.pop()
        assert opened == tag

    def handle_data(self, data):
        self.text += data
        if any(tag in ("td", "th") for tag, _ in self.open):
            self.tables[-1][-1][-1][0] += data
        tag, attributes = self.open[-1] if self.open else ("", {})
        if tag == "span" and "title" in attributes:
            self.titles[data] = (attributes["class"], attributes["title"])

    def rows(self, table):
        """Return the rows of a table as texts."""
        return [[text.strip() for text, _ in row] for row in self.tables[table]]

    def classes(self, table, row):
        return [name for _, name in self.tables[table][row]]


@pytest.fixture
def page(quorate, tmp_path):
    def make(group, *arguments):
        source, target = tmp_path / "group.json", tmp_path / "page.html"
        source.write_text(json.dumps(group))
        ended = quorate("assign", source, "--html", target, *arguments)
        assert (ended.status, ended.err) == (0, f"wrote {target}\n")
        return Page(target.read_text(encoding="utf-8"))

    return make


GROUP = {
    "group": "web",
    "topics": {"t": {"racks": [["a"], ["b"], ["b"], ["c", "a"]], "lag": 2}},
    "members": {
        "m1": {"rack": "a", "owned": {"t": [0, 1]}},
        "m2": {"rack": "b", "owned": {"t": [2, 3]}},
        "m3": {"topics": ["t"]},
    },
}


def test_the_picture_shows_where_each_member_reads_from(page):
    shown = page(GROUP, "--assignor", "range", "--without", "m3")
    overview, now, after = shown.rows(0), shown.rows(1), shown.rows(2)
    assert overview == [
        ["assignor", "partitions of a member", "local", "lag of a member", "moved"],
        ["current", "0 to 2", "50%", "0 to 4", "–"],
        ["range (client)", "2 to 2", "100%", "4 to 4", "2 of 4"],
    ]
    assert now == [
        ["member", "rack", "from rack a", "from rack b", "from rack c", "partitions", "lag", "which"],
        ["m1", "a", "1 local", "1 remote", "·", "2", "4", "t-0t-1 (b)"],
        ["m2", "b", "·", "1 local", "1 remote", "2", "4", "t-2t-3 (c)"],
        ["m3", "–", "·", "·", "·", "0", "0", ""],
        ["all in a (1)", "50% local", "1 local", "1 remote", "·", "2", "4", ""],
        ["all in b (1)", "50% local", "·", "1 local", "1 remote", "2", "4", ""],
        ["all without a rack (1)", "– local", "·", "·", "·", "0", "0", ""],
    ]
    assert shown.classes(1, 1)[2:5] == ["cell local", "cell remote", "cell nothing"]
    assert after[1] == ["m1", "a", "2 local", "·", "2", "4", "+1 -1", "t-0+t-3"]
    assert after[0][-2:] == ["moved", "which"]
    assert shown.titles["t-1 (b)"] == (
        "chip remote",
        "t-1: replicas in b; remote; a swap with a member in its racks would make it local; "
        "the assignor is sticky, assigns topic by topic, or ignores racks",
    )
    assert shown.titles["+t-3"] == ("chip local came", "t-3: replicas in c, a; local; new to this member")
    assert "Why 2 are remote:" in shown.text
    assert "What if: without m3" in shown.text


def test_the_page_has_no_scripts_and_no_external_resources(page):
    shown = page(GROUP, "--assignor", "range")
    assert shown.tags <= TAGS
    names = {name for name, _ in shown.attributes}
    assert not {name for name in names if name.startswith("on") or name in ("src", "srcset", "action", "style-src")}
    assert all(value.startswith("#") for name, value in shown.attributes if name == "href")
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in shown.attributes
    assert not re.search(r"url\(|@import|https?:", shown.text)


def test_both_colour_schemes_have_enough_contrast(page):
    """WCAG 2.2, 1.4.3: text and background have a contrast ratio of at least 4.5."""
    style = page(GROUP, "--assignor", "range").text
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    )
    assert "prefers-color-scheme: dark" in style
    for colours in (light, dark):
        pairs = [
            ("fg", "bg"),
            ("dim", "bg"),
            ("fg", "soft"),
            *((f"on-{one}", one) for one in ("local", "remote", "unknown")),
        ]
        for text, background in [*pairs, ("on-remote", "hatch")]:
            low, high = sorted((luminance(colours[text]), luminance(colours[background])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (text, background)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_names_are_escaped(page):
    """Names may hold HTML, quotes, control and bidirectional characters."""
    evil = "<script>alert('x')</script>\"' onload=x & </title></style> \x07\u202e"
    group = {
        "group": evil,
        "topics": {f"t{evil}": {"racks": [[f"r{evil}"], ["other"]]}},
        "members": {
            f"m{evil}": {"rack": f"r{evil}", "owned": {f"t{evil}": [0]}},
            "n": {"rack": "other", "instance_id": f"i{evil}"},
        },
    }
    shown = page(group, "--assignor", "range", "--without", "i*", "--add", f"z{evil}")
    assert shown.tags <= TAGS
    assert not {name for name, _ in shown.attributes if name.startswith("on")}
    visible = evil.replace("\x07", "\\x07").replace("\u202e", "\\u202e")
    assert f"{visible}: assignments" in shown.text
    assert [row[0] for row in shown.rows(2)[1:3]] == [f"m{visible}", f"z{visible}"]
    assert f"from rack r{visible}" in shown.rows(1)[0]
    assert "\u202e" not in shown.text


def test_without_racks_there_is_no_picture_of_racks(page):
    shown = page({"topics": {"t": 2}, "members": {"m1": {}}}, "--assignor", "range")
    assert shown.rows(0) == [["assignor", "partitions of a member"], ["range (client)", "2 to 2"]]
    assert shown.rows(1) == [["member", "rack", "partitions", "which"], ["m1", "–", "2", "t-0t-1"]]
    assert shown.titles["t-0"] == ("chip unknown", "t-0: replicas in unknown racks; locality unknown")


def test_unknown_racks_have_a_column(page):
    group = {"topics": {"t": {"racks": [["a"], []]}}, "members": {"m1": {"rack": "a"}}}
    shown = page(group, "--assignor", "range")
    assert shown.rows(1)[:2] == [
        ["member", "rack", "from rack a", "unknown", "partitions", "which"],
        ["m1", "a", "1 local", "1", "2", "t-0t-1"],
    ]


def test_rows_of_a_large_group_are_limited_but_sums_are_complete(page):
    members = {f"m{number:04}": {"rack": "ab"[number % 2]} for number in range(1_000)}
    group = {"topics": {"t": {"partitions": 2_000, "racks": [["a"], ["b"]]}}, "members": members}
    shown = page(group, "--assignor", "range")
    assert len(shown.rows(1)) == 1 + 200 + 2
    assert "800 more members" in shown.text
    assert shown.rows(1)[-2][:2] == ["all in a (500)", "100% local"]
    assert "which" not in shown.rows(1)[0]
    assert len(page(group, "--assignor", "range", "--limit", "5").rows(1)) == 1 + 5 + 2
    assert len(page(group, "--assignor", "range", "--limit", "0").rows(1)) == 1 + 1_000 + 2
