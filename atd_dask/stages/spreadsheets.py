"""Makes tables safe to open in a spreadsheet: text of documents must not become a formula."""

from __future__ import annotations

import csv
import io

# What starts a formula, or another cell, in a spreadsheet.
_DANGEROUS = ("=", "+", "-", "@", "\t")


def guard_table(content: bytes) -> bytes:
    """Return CSV in which no cell is a formula and there are no carriage returns. Numbers stay
    numbers."""
    # This comes first, because a writer whose rows end with a line feed does not quote them.
    text = content.decode("utf-8").replace("\r", " ")
    limit = csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    try:
        rows = list(csv.reader(io.StringIO(text, newline="")))
    finally:
        csv.field_size_limit(limit)
    guarded = io.StringIO(newline="")
    csv.writer(guarded, lineterminator="\n").writerows([map(_guard, row) for row in rows])
    return guarded.getvalue().encode("utf-8")


def _guard(cell: str) -> str:
    dangerous = cell.lstrip(" \n").startswith(_DANGEROUS) and not _is_number(cell)
    return f"'{cell}" if dangerous else cell


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell == cell.strip()
