"""Which lines match: the same as asking every line by itself."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.logs.log_lines import DRIVER
from engine.logs.log_query import Query, highlighter

LOG = (
    b"\x1b[36m(TaskRunnerV1 pid=7)\x1b[0m step:1 - loss:0.5\n"
    b"plain words of the driver\n"
    b"\x1b[36m(WorkerDict pid=9, ip=10.0.0.2)\x1b[0m Loss is NaN\n"
    b"\n"
    b"torn loss"
)
STARTS = [0, *(match.end() for match in re.finditer(rb"\n", LOG))]


def found(*patterns: str, source: str = "") -> list[int]:
    places = Query(patterns, source).search(LOG)
    return [STARTS.index(place) for place in places]


def test_small_letters_ignore_case_and_a_capital_minds_it() -> None:
    assert found("loss") == [0, 2, 4]
    assert found("Loss") == [2]


def test_every_pattern_has_to_match() -> None:
    assert found("loss", "nan") == [2]


def test_colors_are_no_part_of_a_line() -> None:
    assert found(r"pid=7\) step:1") == [0]
    assert found("^plain") == [1]
    assert found("5$") == [0]


def test_a_source_is_a_worker_or_the_driver() -> None:
    assert found(source="WorkerDict pid=9, ip=10.0.0.2") == [2]
    assert found(source=DRIVER) == [1, 3, 4]
    assert found("loss", source=DRIVER) == [4]


def test_no_match_reaches_over_the_end_of_a_line() -> None:
    assert found(r"driver\s+.*loss") == []
    assert found(r"words[^x]*driver") == [1]


def test_a_pattern_that_matches_nothing_at_all_matches_every_line() -> None:
    assert found("x*") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("pattern", ["(", "[a-", "a{99999999999}", "(" * 5000])
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="no regular expression"):
        Query((pattern,))


LINE = st.text(alphabet="abAB\x1b[3m1 ", max_size=12).map(lambda text: text.encode())


@given(
    st.lists(LINE, max_size=12),
    st.sampled_from(["a", "A", "a.b", "^b", "b$", "a*", "[^b]a", r"\bab", "1|a"]),
)
def test_a_whole_text_is_searched_as_line_by_line(lines: list[bytes], pattern: str) -> None:
    data = b"".join(line + b"\n" for line in lines)
    query, place, expected = Query((pattern,)), 0, []
    for line in lines:
        if query.search(line + b"\n"):
            expected.append(place)
        place += len(line) + 1
    assert query.search(data) == expected


@pytest.mark.parametrize("pattern", ["(a+)+b", "a.*b.*c.*d", r"(a)\1", "(?:a|b)*c"])
def test_a_pattern_that_may_take_for_ever_is_not_tried_on_the_screen(pattern: str) -> None:
    assert highlighter(pattern) is None


def test_simple_patterns_are_highlighted() -> None:
    pattern = highlighter(r"step:\d+")
    assert pattern is not None and pattern.search("(A pid=1) STEP:12")
