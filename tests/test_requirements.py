"""Every requirement of docs/requirements.md has a test that checks it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.paths import ROOT

_MARK = re.compile(r"@pytest\.mark\.row\(([^)]*)\)")


def listed() -> list[str]:
    page = (ROOT / "docs" / "requirements.md").read_text()
    return re.findall(r"^\| ([A-Z]\d\d) \|", page, re.MULTILINE)


def marked() -> Iterator[str]:
    for path in (ROOT / "tests").rglob("test_*.py"):
        for arguments in _MARK.findall(path.read_text()):
            yield from re.findall(r'"([^"]*)"', arguments)


def test_every_listed_requirement_has_a_test_and_every_mark_is_listed() -> None:
    ids = listed()
    assert len(ids) == len({*ids}) >= 24
    assert {*marked()} == {*ids}
