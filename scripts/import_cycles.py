"""Fails if modules of quorate import each other in a circle, also by imports inside functions.

`make lint` runs it on the installed package.

Imports for type checkers alone are left out: they are not there when the code runs.
"""

import sys

import grimp


def main() -> None:
    """Print the circles, and end with 1 if there are any."""
    graph = grimp.build_graph("quorate", exclude_type_checking_imports=True, cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    left = dict(imported)
    while True:  # what imports nothing that is left, or is imported by nothing that is left, is in no circle
        importers = {one for found in left.values() for one in found & left.keys()}
        outside = [module for module, found in left.items() if not found & left.keys() or module not in importers]
        if not outside:
            break
        for module in outside:
            del left[module]
    if left:
        lines = [f"  {module} -> {', '.join(sorted(found & left.keys()))}" for module, found in sorted(left.items())]
        sys.exit("these modules import each other in circles:\n" + "\n".join(lines))
    print(f"no circles among the imports of {len(imported)} modules")


if __name__ == "__main__":
    main()
