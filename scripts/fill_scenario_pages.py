"""Copy the code of tests into docs/how-to/scenarios*.md, so that the pages show tested code.

`<!-- source FILE NAME... -->` in a page is followed by a block with the functions, classes and
constants of those names, as the file has them; `imports` are the file's imports. With --check
nothing is written: the exit status is 1 if a page is out of date.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"(<!-- source (\S+) ([\w ]+) -->\n\n```python\n).*?(```\n)", re.DOTALL)


def code(file: str, names: list[str]) -> str:
    """Return the source of these names, without markers that are only for `make test`.

    Raises `KeyError` for an unknown one.
    """
    text = (ROOT / file).read_text("utf-8")
    lines = text.splitlines()
    found: dict[str, str] = {}
    for node in ast.parse(text).body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        name = "imports" if isinstance(node, ast.Import | ast.ImportFrom) else getattr(node, "name", None)
        if isinstance(node, ast.Assign):
            name = ast.unparse(node.targets[0]).strip("()").partition(",")[0]
        if name is not None:
            shown_lines = [one for one in lines[first - 1 : node.end_lineno] if not one.startswith("@pytest.mark.long")]
            source = "\n".join(shown_lines)
            found[name] = f"{found[name]}\n{source}" if name in found else source
    shown = ""
    for name in names:
        between = "\n" if name.isupper() and shown.count("\n") == 1 else "\n\n"
        shown += (between if shown else "") + found[name] + "\n"
    return shown


def filled(page: str) -> str:
    """Return a page with up-to-date blocks."""
    return _BLOCK.sub(lambda match: match[1] + code(match[2], match[3].split()) + match[4], page)


def main() -> int:
    """Fill in all pages, or check them."""
    stale = []
    for page in sorted(ROOT.glob("docs/how-to/scenarios*.md")):
        text = page.read_text("utf-8")
        if filled(text) != text:
            stale.append(page)
            if "--check" not in sys.argv[1:]:
                page.write_text(filled(text), "utf-8")
    for page in stale:
        status = "is out of date: run scripts/fill_scenario_pages.py" if "--check" in sys.argv[1:] else "filled"
        print(f"{page.relative_to(ROOT)} {status}")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
