"""Draw docs/images/demo.svg, the output of `quorate demo` in a terminal (`make picture`).

The picture has no external resources: it uses a monospaced font of the viewer's machine.
"""

import io
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "demo.svg"
COLUMNS = 116

FRAME = (
    """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; """
    + """\
font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">"""
    + """\
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g>
</g>
</svg>
"""
)
"""The frame that rich draws around its SVG, without external fonts."""


def demo_output(folder: Path) -> str:
    """Run the demo and return its output with colours; its page is written to the folder.

    Owners of partitions and durations differ between runs.
    """
    scripts = sysconfig.get_path("scripts")
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"FORCE_COLOR": "1"}
    # With the command on PATH, the suggested commands have its bare name, as in the picture.
    environment["PATH"] = os.pathsep.join((scripts, environment.get("PATH", os.defpath)))
    command = [Path(scripts) / "quorate", "demo"]
    return subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def picture(text: str) -> str:
    """Return an SVG with the text in a terminal window."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.from_ansi(f"$ quorate demo\n{text}"), soft_wrap=True)
    return console.export_svg(title="quorate demo", theme=MONOKAI, code_format=FRAME, unique_id="quorate")


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        PICTURE.write_text(picture(demo_output(Path(folder))), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}", file=sys.stderr)
