"""Warnings that mean little alone: a real cause explains more, and often they do no harm."""

from __future__ import annotations

import pytest

from engine.doctor.text.findings import findings
from engine.run.finding import Severity
from tests.engine.doctor.text.reading import HEADER, STEPS, alerts, frames, ids, read, reader_of

CPU_BUILD = (
    "/e/bitsandbytes/cextension.py:9: UserWarning: The installed version of bitsandbytes was "
    "compiled without GPU support.\n"
    '  warn("The installed version of bitsandbytes was compiled without GPU support. "\n'
)
FORBIDDEN = (
    HEADER
    + frames("/e/huggingface_hub/utils/_http.py:hf_raise_for_status")
    + "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: "
    "https://huggingface.co/api/repos/create\n"
)
MORE = "the program goes on with what it does\n" * 12
SKIPPED = "The average ratio of batch ({}.50) exceeds threshold 10.00. Skipping batch.\n"


def negative(*estimates: str) -> str:
    return "".join(
        f"/e/trl/ppo_trainer.py:7: UserWarning: KL divergence is starting to become negative: "
        f"{estimate} - this might be a precursor for failed training.\n  warnings.warn(\n"
        for estimate in estimates
    )


def test_a_cpu_build_that_nobody_needs_is_no_alert() -> None:
    assert alerts(CPU_BUILD, MORE) == []


def test_a_refusal_of_the_hub_explains_more_than_a_cpu_build_above_it() -> None:
    broken = HEADER + frames("/w/tune.py:<module>", "/e/trl/trainer.py:__init__")

    assert ids(CPU_BUILD, FORBIDDEN, broken)[0] == "model_not_found_or_hub.access"


def test_a_kl_far_below_zero_is_a_warning_once_it_is_the_last_word() -> None:
    (one,) = read(STEPS, negative("-57.10"))

    assert (one.id, one.severity) == ("kl_or_grad_blowup.negative", Severity.WARNING)
    assert "-57.10" in one.title


def test_a_run_that_goes_on_is_warned_where_it_comes_again() -> None:
    assert alerts(negative("-3.20"), STEPS) == []
    assert alerts(negative("-3.20", "-5.81", "-9.07"), STEPS) == ["kl_or_grad_blowup.negative"]


@pytest.mark.parametrize("estimates", [["-0.04"], ["-0.04", "-0.11"]])
def test_an_estimate_just_below_zero_is_chance(estimates: list[str]) -> None:
    assert ids(negative(*estimates)) == []


def test_estimates_that_stay_just_below_zero_are_worth_knowing() -> None:
    (one,) = read(negative("-0.04", "-0.11", "-0.36"))

    assert (one.category, one.severity) == ("kl_or_grad_blowup", Severity.INFO)


def test_an_error_stands_before_a_kl_that_was_warned_of() -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n"

    assert ids(negative("-57.10"), oom)[0].startswith("cuda_oom")


def test_a_warning_is_less_sure_than_what_numbers_show_as_an_error() -> None:
    (one,) = read(negative("-57.10"))

    assert one.confidence < 0.4


def test_a_batch_that_is_skipped_once_is_what_the_limit_is_for() -> None:
    assert alerts(SKIPPED.format(12), MORE) == []


def test_batches_skipped_one_after_the_other_train_nothing() -> None:
    many = "".join(SKIPPED.format(ratio) for ratio in range(12, 24))

    assert alerts(STEPS, many) == ["kl_or_grad_blowup.ratio"]


def test_a_tensor_that_is_printed_as_nan_line_after_line() -> None:
    sound, lost = "tensor(2.5021, device='cuda:0')\n", "tensor(nan, device='cuda:0')\n"

    assert ids(sound, lost * 6) == ["loss_nan.tensor"]
    assert ids(sound, lost * 2, sound * 9) == []


@pytest.mark.parametrize(
    ("message", "id"),
    [
        ("RuntimeError: invalid dtype for bias - should match query's dtype", "dtype_or_attention"),
        ("torch.x.InductorError: AssertionError: libcuda.so cannot found!", "driver_toolkit"),
        ("{'object': 'error', 'message': 'maximum context length is 8 tokens'}", "context_length"),
    ],
)
def test_messages_that_a_more_general_rule_would_take(message: str, id: str) -> None:
    first = findings(reader_of(HEADER + frames("/e/torch/_ops.py:__call__"), message + "\n"))[0]

    assert first.id.startswith(id)


def test_what_is_said_of_a_quoted_question_counts_at_the_level_of_its_record() -> None:
    text = (
        "2025-01-01 00:00:00,001[x.bench] - ERROR - bench.py:7 - >>>>\n"
        "Error with sample 'Which of these towns is the one with the oldest of all bridges,\n"
        "as told on the pages of the atlas that was printed in May.': Request timed out.\n<<<<\n"
    )

    assert ids(text) == ["judge_timeout_or_connection"]
