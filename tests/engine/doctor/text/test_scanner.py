"""A stream is read the same however it was cut, and never held as a whole."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.doctor.text.scanner import LONGEST_LINE, Scanner

LINES = st.lists(
    st.sampled_from(
        [
            b"plain\n",
            b"has NEEDLE here\n",
            b"bar 1%\r",
            b"bar needle\r\n",
            b"\n",
            b"\xff\x00\n",
            b"z" * 300,
        ]
    ),
    max_size=40,
).map(b"".join)
Seen = list[tuple[int, bytes, int]]


def scan(pieces: list[bytes]) -> Seen:
    seen: Seen = []

    def note(raw: bytes, offset: int, needles: object) -> None:
        seen.append((offset, raw, len(scanner.before(50))))

    scanner = Scanner([b"needle"], note, lambda: False)
    for piece in pieces:
        scanner.feed(piece)
    scanner.finish()
    return seen


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(LINES, st.lists(st.integers(0, 10_000), max_size=12))
def test_cuts_do_not_matter(data: bytes, places: list[int]) -> None:
    assert scan(cut(data, places)) == scan([data])


def test_only_lines_with_a_needle_are_read_at_their_offset() -> None:
    assert [(at, raw) for at, raw, _ in scan([b"a\nthe Needle\nb\n"])] == [(2, b"the Needle\n")]


def test_a_bars_states_are_lines_of_their_own() -> None:
    assert [raw for _, raw, _ in scan([b"10%\r20% needle\r30%\n"])] == [b"20% needle\r"]


def test_a_last_line_without_an_end_is_read_at_the_finish() -> None:
    assert [raw for _, raw, _ in scan([b"x\nneedle"])] == [b"needle"]


def test_of_an_endless_line_the_beginning_is_read_and_the_rest_passed_over() -> None:
    endless = b"needle" + b"x" * (10 * LONGEST_LINE) + b"needle\nnext needle\n"
    whole = scan([endless])
    assert [len(raw) for _, raw, _ in whole] == [LONGEST_LINE, len(b"next needle\n")]
    assert whole[1][0] == endless.index(b"next")
    assert scan(cut(endless, list(range(0, len(endless), 70_001)))) == whole


def test_while_all_lines_are_wanted_all_are_given() -> None:
    seen: list[bytes] = []
    left = [2]

    def note(raw: bytes, offset: int, needles: object) -> None:
        seen.append(raw)
        left[0] -= 1

    scanner = Scanner([b"needle"], note, lambda: left[0] > 0)
    scanner.feed(b"1\n2\n3\n4 needle\n")
    assert seen == [b"1\n", b"2\n", b"4 needle\n"]


def test_what_came_before_a_line_can_be_read_across_pieces() -> None:
    before: list[bytes] = []
    scanner = Scanner([b"needle"], lambda *_: before.append(scanner.before(8)), lambda: False)
    scanner.feed(b"one\ntwo\n")
    scanner.feed(b"three\nneedle\n")
    assert before == [b"o\nthree\n"]
