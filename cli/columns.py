"""Small tables that are known as a whole: as wide as they need to be, two spaces between columns."""

from collections.abc import Collection, Sequence

__all__ = ["columns"]


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """A line for each row. Columns in `right` are set to the right; rows have equally many cells."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
