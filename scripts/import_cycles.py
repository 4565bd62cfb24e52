"""Fails if imports of quorate's modules form a cycle, including imports inside functions.

`make lint` runs it on the installed package. Imports for type checkers only are ignored.
"""

import sys

import grimp


def main() -> None:
    """Print the cycles, and exit with 1 if there are any."""
    graph = grimp.build_graph("quorate", exclude_type_checking_imports=True, cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    left = dict(imported)
    while True:  # remove modules that import none of the others, or are imported by none: they are in no cycle
        importers = {one for found in left.values() for one in found & left.keys()}
        outside = [module for module, found in left.items() if not found & left.keys() or module not in importers]
        if not outside:
            break
        for module in outside:
            del left[module]
    if left:
        lines = [f"  {module} -> {', '.join(sorted(found & left.keys()))}" for module, found in sorted(left.items())]
        sys.exit("import cycles:\n" + "\n".join(lines))
    print(f"no import cycles in {len(imported)} modules")


if __name__ == "__main__":
    main()
