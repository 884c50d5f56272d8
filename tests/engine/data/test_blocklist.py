"""Records with a listed text are found as responses are, and counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.data.blocklist import BlockedCounts, RecordFilter
from engine.reward.scorer import Blocklist

LIST = Path("list.txt")
WORDS = st.text("aAbB ßẞsSİi", min_size=1, max_size=4)


@given(st.lists(WORDS, min_size=1, max_size=5), st.text("aAbB ßẞsSİi", max_size=12))
def test_what_it_finds_is_what_the_blocklist_of_responses_finds(
    listed: list[str], text: str
) -> None:
    finder = RecordFilter(LIST, listed)
    expected = Blocklist(tuple(listed)).find(text)
    assert finder.blocks(text) == bool(expected)
    assert set(finder.counts.hits) == set(expected)


def test_a_file_has_a_text_a_line(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes("\ufeff# leaked\r\n\r\n  rm -rf \r\n#no\r\nC# code\r\nrm -rf\r\n".encode())
    finder = RecordFilter.read(path)
    assert finder.unmatched == ["rm -rf", "C# code"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "list.txt does not exist"),
        (b"", "list.txt has no texts; write one a line"),
        (b"# none\n\n", "has no texts"),
        (b"\xff\xfe", "is not text in UTF-8"),
    ],
)
def test_a_file_without_texts_is_refused(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "list.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=says):
        RecordFilter.read(path)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a regular file"):
        RecordFilter.read(tmp_path)


def test_a_record_counts_once_and_for_each_of_its_texts() -> None:
    finder = RecordFilter(LIST, ["cat", "dog", "cow"])
    for texts in (("a CAT, a cat", "a dog"), ("cat",), ("a bird",)):
        finder.blocks(*texts)
    assert finder.counts == BlockedCounts(2, {"cat": 2, "dog": 1})
    assert finder.unmatched == ["cow"]


def test_the_lines_name_the_most_frequent_texts_first_and_at_most_five() -> None:
    finder = RecordFilter(LIST, [f"t{number}." for number in range(9)])
    for number in range(7):
        for _ in range(number + 1):
            finder.blocks(f"t{number}.")
    left_out, unmatched = finder.format_lines()
    assert left_out == (
        "left out 28 records with a text of list.txt: 't6.' in 7, 't5.' in 6, 't4.' in 5, "
        "'t3.' in 4, 't2.' in 3, 2 more"
    )
    assert unmatched == "no record contains 't7.', 't8.'"


def test_without_a_hit_there_is_one_line() -> None:
    finder = RecordFilter(LIST, ["cat", "dog"])
    finder.blocks("a bird")
    assert list(finder.format_lines()) == ["no record contains a text of list.txt"]


def test_a_secret_on_the_list_is_not_in_the_counts() -> None:
    secret = "sk-proj-" + "Ab3dEf6hIj9" * 4
    finder = RecordFilter(LIST, [secret])
    assert finder.blocks(f"key {secret}")
    assert secret not in str(finder.counts) + "".join(finder.format_lines())
