"""A command is shown so that a shell reads the same words."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base import jsonl
from engine.base.text import format_command


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["sh", "-c", "exit 1"], "sh -c 'exit 1'"),
        (["sh", "-c", "a\nb"], r"sh -c $'a\nb'"),
        (["x", "it's\n\\"], r"x $'it\'s\n\\'"),
        (["x", "a:\n  b"], r"x $'a:\n \040b'"),
        (["\x1b[2J", "\u200b"], r"$'\033[2J' $'\U0000200b'"),
    ],
)
def test_a_command_is_one_line_that_can_be_copied(words: list[str], shown: str) -> None:
    assert format_command(words) == shown
    assert jsonl.line(shown) == shown, "a message may drop repeated blanks"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_a_shell_reads_the_words_that_were_written(words: list[str]) -> None:
    shown = format_command(words)
    assert shown.isprintable()
    code = f"LC_ALL=C.UTF-8; printf '%s\\0' {shown}"
    read = subprocess.run(["bash", "-c", code], capture_output=True, check=True).stdout
    assert read == b"".join(word.encode() + b"\0" for word in words or [""])
