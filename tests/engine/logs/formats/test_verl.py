"""A verl console log: steps by whatever they are led, and the judge's lines between them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.logs.formats.verl import VerlConsole
from engine.run.history.train_log import Step, history
from tests.engine.logs.formats.samples import TIMINGS, verl_line


def parsed(*lines: str | bytes) -> list[Step]:
    raw = [line.encode() if isinstance(line, str) else line for line in lines]
    return VerlConsole().feed(raw)


@pytest.mark.parametrize(
    "lead",
    [
        "",
        "(TaskRunner pid=1) ",
        "\x1b[36m(TaskRunnerV1 pid=3, ip=10.0.0.2)\x1b[0m ",
        "\x1b[36m(TaskRunner pid=1)\x1b[0m \rTraining Progress:  5%|▌   | 1/20 [00:01<00:20]\r",
        "2026-01-02 03:04:05,678 INFO ",
        "0: ",
        "[rank0]: ",
    ],
)
def test_a_step_is_found_behind_prefixes_colors_and_bars(lead: str) -> None:
    (step,) = parsed(verl_line(7, {"actor/pg_loss": 0.5}, lead))
    assert (step.step, step.attempt, step.metrics) == (7, 1, {"actor/pg_loss": 0.5})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", 0.5),
        ("-1e-07", -1e-07),
        ("nan", None),
        ("inf", None),
        ("np.float64(0.5)", 0.5),
        ("np.float64(nan)", None),
        ("np.int32(2)", 2.0),
        ("tensor(0.5, device='cuda:0')", 0.5),
        ("1e300", None),
    ],
)
def test_numbers_as_verl_prints_them(text: str, value: float | None) -> None:
    for lines in (1, 2):  # the second line of a layout takes the quick path
        steps = parsed(*[verl_line(n, {"a/b": text, "c/d": 1.0}) for n in range(lines)])
        assert steps[-1].metrics == {"a/b": value, "c/d": 1.0}


def test_values_that_are_not_numbers_are_left_out() -> None:
    (step,) = parsed(
        verl_line(1, {"a/text": "hello", "a/flag": "True", "a/list": "[1, 2]", "b": 2})
    )
    assert step.metrics == {"b": 2.0}
    second = parsed(*[verl_line(n, {"a": "true", "b": '"x"', "c": 2}) for n in (1, 2)])[1]
    assert second.metrics == {"c": 2.0}


def test_names_with_brackets_and_colons_are_whole() -> None:
    (step,) = parsed(
        verl_line(1, {"train/total_tokens(B)": 2.5e-7, "val-core/a:b/acc/mean@1": 0.5})
    )
    assert step.metrics["train/total_tokens(B)"] == 2.5e-7
    assert step.metrics["val-core/a:b/acc/mean@1"] == 0.5


def test_a_line_that_ray_repeats_or_a_pty_ends_is_read_to_its_last_number() -> None:
    line = verl_line(1, {"a": 1.0, "timing_s/step": 2.5})
    for end in ("\r", " [repeated 2x across cluster]", "\x1b[0m"):
        assert parsed(line + end)[0].metrics == {"a": 1.0, "timing_s/step": 2.5}


def test_words_that_look_like_a_step_are_ignored() -> None:
    assert (
        parsed("global_step:5 - x:1", "timing_s/step:5", "step:5", "step: 5 - a:1", "step:x") == []
    )


def test_the_score_is_the_reward_and_validation_is_a_mean_over_sources() -> None:
    values = {
        "critic/score/mean": 0.5,
        "critic/rewards/mean": 0.25,
        "critic/score/min": 0.0,
        "val-aux/one/reward/mean@1": 0.25,
        "val-aux/two/reward/mean@1": 0.75,
    }
    (step,) = parsed(verl_line(3, values))
    assert step.metrics["reward/mean"] == 0.5
    assert step.metrics["reward/min"] == 0.0
    assert step.metrics["val/reward"] == 0.5
    assert step.metrics["critic/rewards/mean"] == 0.25


def test_a_resumed_run_that_goes_back_is_another_attempt() -> None:
    steps = parsed(*[verl_line(n, {"a/b": float(i)}) for i, n in enumerate([1, 2, 3, 2, 3, 4])])
    assert [(s.step, s.attempt, s.redone) for s in steps[2:]] == [
        (3, 1, False),
        (2, 2, True),
        (3, 2, True),
        (4, 2, False),
    ]
    assert [s.metrics["a/b"] for s in history(steps)] == [0.0, 3.0, 4.0, 5.0]


def test_the_log_says_how_long_it_is_and_which_model() -> None:
    parser = VerlConsole()
    parser.feed([b"{'model': {'path': '/models/tiny', 'x': 1}}", b"'total_training_steps': -1,"])
    assert (parser.about().model, parser.about().total_steps) == ("/models/tiny", None)
    parser.feed([b"(T pid=1) INFO: Total training steps: 40"])
    assert parser.about().total_steps == 40


def test_the_judge_lines_belong_to_the_step_before_them() -> None:
    lines = [verl_line(4, {"actor/pg_loss": 0.5}), *TIMINGS, verl_line(5, {"actor/pg_loss": 0.25})]
    four, five = history(parsed(TIMINGS[0], *lines))
    assert four.metrics["gpu_phase_duration_s"] == 2.2
    assert four.metrics["judge/calls"] == 8
    assert four.metrics["actor/pg_loss"] == 0.5
    assert "judge/calls" not in five.metrics


@given(st.lists(st.binary(max_size=200), max_size=5), st.binary(max_size=60))
def test_any_bytes_are_fine(lines: list[bytes], tail: bytes) -> None:
    VerlConsole().feed([*lines, b"step:1 - " + tail, b"step:1 - a:1 - " + tail, tail])


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}/[a-z_@0-9]{1,12}", fullmatch=True),
        st.floats(allow_infinity=False, min_value=-1e90, max_value=1e90),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 10**9),
)
def test_written_numbers_come_back(values: dict[str, float], step: int) -> None:
    values = {f"x{name}": value for name, value in values.items()}
    line = verl_line(step, values)
    for result in parsed(line, line):
        assert result.step == step
        assert result.metrics == {k: None if math.isnan(v) else v for k, v in values.items()}
