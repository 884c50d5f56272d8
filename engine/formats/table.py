"""The table of log formats in docs/cockpit.md.

``python -m engine.formats.table docs/cockpit.md`` renews it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from engine.base.errors import guarded
from engine.base.tables import write_between_marks
from engine.formats.detect import FORMATS


def format_table() -> str:
    """Return a row for each built-in format, in the order of detection."""
    rows = ["| format (`--as`) | what is read |", "|---|---|"]
    rows += [f"| {row.name} (`{row.key}`) | {row.reads} |" for row in FORMATS]
    return "\n".join(rows)


def main() -> int:
    write_between_marks(Path(sys.argv[1]), "log formats", format_table())
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
