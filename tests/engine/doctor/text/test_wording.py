"""Words of trouble that tell of none."""

from __future__ import annotations

import re

import pytest

from engine.doctor.text.line import within
from engine.doctor.text.wording import is_tally, is_verdict


def found(pattern: str, text: str) -> re.Match[str]:
    match = re.search(pattern, text)
    assert match is not None
    return match


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("insufficient_quota", "judge stats: ok=900 insufficient_quota=0"),
        ("CUDA out of memory", "CUDA out of memory events: 0"),
        ("judge.*timeout", "judge: 0 timeouts in 900 calls"),
        ("connection error", "3 retries, 0 connection errors"),
        ("NaN values found in", "NaN values found in 0 of 12 tensors"),
        ("Checkpoint mismatch", "Checkpoint mismatch check: passed"),
    ],
)
def test_what_is_counted_as_none_did_not_happen(pattern: str, text: str) -> None:
    assert is_tally(found(pattern, text))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("insufficient_quota", "judge stats: insufficient_quota=3"),
        ("CUDA out of memory", "GPU 0: CUDA out of memory. Tried to allocate 2 GiB"),
        ("out of memory", "out of memory: 0.5 GiB free"),
        ("timeout", "10 timeouts"),
        ("out of memory", "GPU 0 ran out of memory"),
        ("CUDA error", "rank 0 CUDA error"),
        ("CUDA error", "rank: 0 CUDA error"),
        ("CUDA error", "CUDA error on device: 0"),
        ("NCCL error", "NCCL error, rank=0"),
    ],
)
def test_what_is_counted_did(pattern: str, text: str) -> None:
    assert not is_tally(found(pattern, text))


def test_what_stands_alone_behind_a_quotation_is_said_of_it() -> None:
    assert is_verdict(found("Request timed out", "as it was on a day in May.': Request timed out."))


@pytest.mark.parametrize(
    "text",
    [
        "{'question': 'Request timed out.'}",
        "the users of my service read: Request timed out.",
        "he said 'oh my': Request timed out. What shall I do about it",
    ],
)
def test_what_is_part_of_a_text_is_said_in_it(text: str) -> None:
    assert not is_verdict(found("Request timed out", text))


@pytest.mark.parametrize(
    ("path", "shorter"),
    [
        ("/opt/envs/vllm/lib/python3.11/site-packages/peft/x.py:f", "/site-packages/peft/x.py:f"),
        ("C:/envs/wandb/lib/site-packages/peft/x.py:f", "/site-packages/peft/x.py:f"),
        ("/usr/lib/python3.11/threading.py:run", "/lib/python3.11/threading.py:run"),
        ("/home/me/vllm/vllm/engine/x.py:f", "/home/me/vllm/vllm/engine/x.py:f"),
    ],
)
def test_the_name_of_an_environment_tells_nothing(path: str, shorter: str) -> None:
    assert within(path) == shorter
