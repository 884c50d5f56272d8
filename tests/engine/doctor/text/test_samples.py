"""Whatever stands in samples that a program prints is no finding; what stands below them is."""

from __future__ import annotations

import pytest

from tests.engine.doctor.text.reading import HEADER, alerts, frames

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n"
SANDBOX = HEADER + frames("/tmp/box/answer.py:<module>") + "MemoryError\n"


def of_task(text: str) -> str:
    return "".join(f"(Task pid=3) {line}\n" for line in text.splitlines())


@pytest.mark.parametrize("said", [OOM, f"Why this?\n{OOM}", SANDBOX])
def test_a_marked_sample_lasts_until_its_score(said: str) -> None:
    sample = of_task(f"[prompt] user\n{said}[response] Buy more.\n[ground_truth] 4\n[score] 0.0\n")
    assert alerts(sample) == []


def test_an_answer_that_is_a_traceback_is_still_an_answer() -> None:
    assert alerts(of_task(f"[score] 1.0\n[response] {SANDBOX}[score] 0.0\n")) == []


@pytest.mark.parametrize("end", ["[score] 0.0", "[ground_truth] 4", "step:3 - actor/loss:0.5"])
def test_what_comes_below_a_marked_sample_is_read(end: str) -> None:
    sample = f"[prompt] user\nTwo and two?\n[response] 5\n{end}\n{OOM}"
    assert alerts(of_task(sample)) == ["cuda_oom_training.oom"]


def test_what_another_process_says_meanwhile_is_read() -> None:
    log = of_task("[prompt] user\nTwo and two?\n") + f"(Worker pid=9) {OOM}"
    assert alerts(log) == ["cuda_oom_training.oom"]


@pytest.mark.parametrize(
    "sample",
    [
        f"PROMPT: Why do I see {OOM}",
        f"PROMPT: Why?\nOUTPUT: {OOM}",
        f"PROMPT: Why?\nOUTPUT: Your program says\n{OOM}",
        f"inputs:\n<|user|>My program says\n{OOM}What now?\nlabels:\nBuy more.\n",
    ],
)
def test_a_sample_in_fields_is_no_finding(sample: str) -> None:
    assert alerts(sample) == []


@pytest.mark.parametrize(
    "below",
    [
        HEADER + frames("/w/train.py:main") + OOM,
        f"2025-02-02 10:00:00 ERROR {OOM}",
        f"{{'loss': 0.5}}\n{OOM}",
        f"***** Running training *****\n{OOM}",
        f"  5%|5         | 1/20 [00:01<00:19, 1.0s/it]\n{OOM}",
    ],
)
def test_the_error_right_below_a_sample_in_fields_is_read(below: str) -> None:
    assert alerts(f"PROMPT: Two and two?\nOUTPUT: 4\n{below}") == ["cuda_oom_training.oom"]


def test_a_setting_named_like_a_field_begins_no_sample() -> None:
    assert alerts(f"output: /w/out\nlr: 1e-5\n{OOM}") == ["cuda_oom_training.oom"]
