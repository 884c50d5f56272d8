"""Parts of the documentation that ``make generated`` renews."""

from __future__ import annotations

from pathlib import Path

from engine.base.errors import UsageError

_END = "<!-- end -->"


def write_between_marks(path: Path, title: str, text: str) -> None:
    """Replace what is between ``<!-- TITLE: make generated -->`` and ``<!-- end -->``."""
    begin = f"<!-- {title}: make generated -->\n"
    before, begin_mark, rest = path.read_text(encoding="utf-8").partition(begin)
    _, end_mark, after = rest.partition(_END)
    if not begin_mark or not end_mark:
        raise UsageError(f"{path} has no part between {begin.strip()} and {_END}")
    path.write_text(f"{before}{begin}{text}\n{_END}{after}", encoding="utf-8")
