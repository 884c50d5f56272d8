"""A search that first looks for a literal finds the same lines."""

from __future__ import annotations

import re

from hypothesis import given

from engine.logs.log_query import Query
from tests.patterns import PATTERNS, TEXTS


@given(PATTERNS, TEXTS)
def test_a_search_finds_the_lines_with_a_match(pattern: str, text: str) -> None:
    data = text.encode() + b"\n"
    offsets, offset = [], 0
    for line in data.splitlines(keepends=True):
        if re.search(pattern.encode(), line.rstrip(b"\n"), re.MULTILINE):
            offsets.append(offset)
        offset += len(line)
    assert Query((pattern,)).search(data) == offsets
