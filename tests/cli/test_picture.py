"""The picture in the README is what the command prints, and asks no other host for anything."""

import html
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "make_picture.py"
PICTURE = ROOT / "docs" / "images" / "demo.svg"


def script():
    spec = importlib.util.spec_from_file_location("make_picture", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def demo_output():
    return script().demo_output()


def text_of(svg):
    """The characters in a picture, line by line; how they are drawn may differ between releases of rich."""
    pieces = re.findall(r'<text class="quorate-r\d+" x="[\d.]+" y="([\d.]+)"[^>]*>([^<]*)', svg)
    lines = {}
    for height, piece in pieces:
        lines[height] = lines.get(height, "") + html.unescape(piece).replace("\xa0", " ")
    return [line.rstrip() for line in lines.values()]


def told(lines):
    """Without what differs from play to play: numbers, which partitions are whose, and whether all stayed where they were."""
    found = [re.sub(r"[\d\s,.-]+", " ", line).strip().replace("nobody gave anything up; ", "") for line in lines]
    return [line.split()[0] if line.startswith("worker") else line for line in found]


def test_the_picture_is_what_the_demo_prints_now(demo_output):
    assert told(text_of(script().picture(demo_output))) == told(text_of(PICTURE.read_text())), "run `make picture`"


def test_the_picture_has_the_lines_that_matter():
    text = "\n".join(text_of(PICTURE.read_text()))
    assert "$ quorate demo" in text
    assert "6 of 6 partitions are read in their consumer's rack" in text
    assert "(remote)" in text
    assert re.search(r"([\d,]+) messages were sent and \1 consumed", text)


def test_the_picture_asks_no_other_host():
    assert set(re.findall(r"https?://[^\s\"')]+", PICTURE.read_text())) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", PICTURE.read_text())
