"""The picture of the demo in the README: its text, and no external resources.

test_play.py compares it with the output of the command.
"""

import html
import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "make_picture.py"
PICTURE = ROOT / "docs" / "images" / "demo.svg"


def script():
    spec = importlib.util.spec_from_file_location("make_picture", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(svg):
    """Return the text of a picture by line; its drawing may differ between releases of rich."""
    pieces = re.findall(r'<text class="quorate-r\d+" x="[\d.]+" y="([\d.]+)"[^>]*>([^<]*)', svg)
    lines = {}
    for height, piece in pieces:
        lines[height] = lines.get(height, "") + html.unescape(piece).replace("\xa0", " ")
    return [line.rstrip() for line in lines.values()]


def test_the_picture_shows_the_demo():
    text = "\n".join(text_of(PICTURE.read_text()))
    assert "$ quorate demo" in text
    assert "6 of 6 partitions are read in their consumer's rack" in text
    assert "(remote)" in text
    assert re.search(r"([\d,]+) messages sent, \1 consumed", text)


def test_the_picture_has_no_external_resources():
    assert set(re.findall(r"https?://[^\s\"')]+", PICTURE.read_text())) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", PICTURE.read_text())
