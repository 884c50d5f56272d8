"""Parts of the documentation that ``make generated`` renews."""

from __future__ import annotations

from pathlib import Path

from engine.base.errors import UsageError

_END = "<!-- end -->"


def write_between_marks(path: Path, title: str, text: str) -> None:
    """Replace what is between ``<!-- TITLE: make generated -->`` and ``<!-- end -->``."""
    begin = f"<!-- {title}: make generated -->\n"
    before, found_begin, rest = path.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(_END)
    if not found_begin or not found_end:
        raise UsageError(f"{path} has no part between {begin.strip()} and {_END}")
    path.write_text(f"{before}{begin}{text}\n{_END}{after}", encoding="utf-8")
