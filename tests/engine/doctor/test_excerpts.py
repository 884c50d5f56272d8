"""Numbers of training are found in whatever way a program, or who copied its log, wrote them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.doctor.excerpts import (
    excerpt_of,
    fuller,
    read_excerpt,
    unwrapped,
    with_meanings,
)
from engine.run.history.columns import Columns
from engine.run.history.train_log import Step

LOSS, NORM, KL = "train/loss", "actor/grad_norm", "actor/kl_loss"

STYLES = {
    "dict": "{{'loss': {0!r}, 'grad_norm': {1!r}, 'kl': {2!r}, 'epoch': 0.1}}\n",
    "dict of many lines": "{{'loss': {0!r},\n 'grad_norm': {1!r},\n 'kl': {2!r}}}\n",
    "dict without its beginning": "5, 'loss': {0!r}, 'grad_norm': {1!r}, 'kl': {2!r}}}\n",
    "dict without its end": "{{'loss': {0!r}, 'grad_norm': {1!r}, 'kl': {2!r}, 'rewards/\n",
    "strings": "{{'loss': '{0!r}', 'grad_norm': '{1!r}', 'kl': '{2!r}'}}\n",
    "json": '{{"loss": {0!r}, "grad_norm": {1!r}, "kl": {2!r}}}\n',
    "equals": "Step: loss={0!r}, grad_norm={1!r}, kl={2!r}\n",
    "lines": "metrics/loss: {0!r}\nmetrics/grad_norm: {1!r}\nmetrics/kl: {2!r}\n",
    "verl": "(Task pid=7) step:3 - loss:np.float64({0!r}) - actor/grad_norm:{1!r} - kl:{2!r}\n",
    "megatron": " | lm loss: {0:.17E} | loss scale: 1.0 | grad norm: {1!r} | kl: {2!r} |\n",
    "bar": " 5%|##   | 5/99 [00:09<02:49, 1.8s/it, loss={0!r}, grad_norm={1!r}, kl={2!r}]\n",
    "tensors": "loss = tensor({0!r}, device='cuda:0') grad norm {1:.17E} kl: {2!r}\n",
    "columns": "loss  grad_norm  kl\n{0!r}  {1!r}  {2!r}\n",
    "ruled table": "| loss | grad_norm | kl |\n|---|---|---|\n| {0!r} | {1!r} | {2!r} |\n",
    "frame": "│   loss   │ {0!r} │\n│ grad_norm │ {1!r} │\n│ mean_kl │ {2!r} │\n",
    "brackets": "[step]    5 | [loss] {0:.17E} | [grad_norm] {1:.17E} | [kl] {2!r}\n",
    "colors": "\x1b[32mloss:  {0!r} \x1b[33mgrad_norm:  {1!r} \x1b[34mkl:  {2!r}\x1b[0m\n",
}


def values(text: str, name: str) -> list[float]:
    result = excerpt_of(text)
    return [] if result is None else result.columns.get(name).values.tolist()


def written(style: str, *numbers: float) -> str:
    return STYLES[style].format(*numbers)


numbers = st.floats(min_value=-1e99, max_value=1e99, allow_subnormal=False)


@pytest.mark.sample(6)
@pytest.mark.parametrize("style", STYLES)
@given(loss=numbers, norm=numbers, kl=numbers)
def test_every_style_of_writing_says_the_same(
    style: str, loss: float, norm: float, kl: float
) -> None:
    text = written(style, loss, norm, kl)

    assert values(text, LOSS) == [loss]
    assert values(text, NORM) == [norm]
    assert values(text, KL) == [kl]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("word", ["nan", "NaN", "-nan", "inf", "Infinity"])
def test_what_is_no_number_is_told_as_such(style: str, word: str) -> None:
    text = re.sub(r"(?i)\bnan\b", word, written(style, math.nan, 2.5, 0.5))

    assert np.isnan(values(text, LOSS)).all()
    assert values(text, NORM) == [2.5]


@given(st.text(max_size=400))
@example("loss")
@example("step | loss\n1 | ")
@example("'loss': ")
@example("loss: 1,23,4,\nloss: --3 loss: 1e999 step: 99999999999999999999 loss: 3")
def test_any_text_can_be_read(text: str) -> None:
    excerpt_of(text)


@given(st.lists(numbers, min_size=1, max_size=6), st.sampled_from(sorted(STYLES)))
def test_a_record_ends_where_its_first_name_comes_again(losses: list[float], style: str) -> None:
    text = "".join(written(style, loss, 1.5, 0.5) for loss in losses)

    assert values(text, NORM) == [1.5] * len(losses) or "step" in text
    assert values(text, LOSS)[-1] == losses[-1]


def test_thousands_may_have_separators() -> None:
    assert values("loss: 2.0\nkl_divergence_mean: 1,204,551.5\n", KL) == [1204551.5]


def test_steps_are_those_that_the_text_names() -> None:
    result = excerpt_of("Step 300: loss=2.5\nStep 400: loss=2.25\n")

    assert result is not None and not result.is_counted
    assert result.columns.get(LOSS).steps.tolist() == [300, 400]


@pytest.mark.parametrize(
    "text", ["loss: 2.5\nloss: 2.25\n", "step 9 loss: 2.5\nstep 1 loss: 2.25\n"]
)
def test_steps_are_counted_where_none_are_named_or_several_trainings_are_told_of(text: str) -> None:
    result = excerpt_of(text)

    assert result is not None and result.is_counted
    assert result.columns.get(LOSS).steps.tolist() == [1, 2]


def test_lines_that_a_terminal_cut_are_whole_again() -> None:
    line = "step:7 - actor/entropy:0.25 - actor/kl_loss:0.125 - actor/grad_norm:0.5 - " + (
        "critic/score/mean:0.75 - critic/score/max:1.0 - response_length/mean:812.5"
    )
    cut = [line[start : start + 72] for start in range(0, len(line), 72)]

    assert unwrapped(cut) == [line]
    assert values("\n".join(cut), "response_length/mean") == [812.5]


def test_lines_of_one_length_are_no_cut_line() -> None:
    lines = [f"{{'loss': 1.2345, 'grad_norm': 0.5000, 'learning_rate': 1e-05, 'epoch': {n}}}"
             for n in range(1, 4)]  # fmt: skip

    assert unwrapped(lines) == lines


def test_a_loss_of_a_run_with_rewards_has_no_level() -> None:
    assert values("loss: 0.5, reward: 0.25\n", "actor/loss") == [0.5]
    assert values("loss: 0.5, reward: 0.25\n", LOSS) == []


@pytest.mark.parametrize(
    "line",
    [
        "max_grad_norm: 1.0",
        "clip_grad_norm=5000",
        "val/loss: nan",
        "critic/grad_norm: 9000.0",
        "Attempted loss scale: 65536, reducing to 32768",
        "kl_coef: 0.0, target_kl: 30",
        "entropy_coeff: 9.5",
        "rewards/format_reward/mean: 0.0",
        "prompt_length/mean: 120.0",
        "Calculating loss: 100%|####| 13/13",
        "losses went down by 5 in 3 days",
        "    loss = self.head(1.0)",
        "reward: rule",
    ],
)
def test_settings_prose_and_other_quantities_are_no_records(line: str) -> None:
    assert excerpt_of(line + "\n") is None


def test_a_gap_of_a_table_is_no_number_that_was_lost() -> None:
    text = "step\ttrain loss\tkl\n10\tnan\t0.5\n15\t2.5\tnan\n20\tnan\t0.25\n"

    assert values(text, LOSS) == [2.5]
    assert values(text, KL) == [0.5, 0.25]


def test_a_column_that_ends_in_nothing_but_nan_was_lost() -> None:
    lost = values("step  loss  kl\n10  2.5  0.5\n20  nan  0.5\n...\n90  nan  0.5\n", LOSS)

    assert lost[0] == 2.5 and np.isnan(lost[1:]).all() and len(lost) == 3


def test_a_table_may_hold_shares_beside_its_numbers() -> None:
    text = "| epoch | loss | valid | kl |\n| 0.1 | 2.5 | 7/8 | 0.5 |\n| 0.2 | 1.5 | 88% | 0.25 |\n"

    assert (values(text, LOSS), values(text, KL)) == ([2.5, 1.5], [0.5, 0.25])


def test_a_table_of_several_models_is_no_course_of_training() -> None:
    assert (
        values("| model | loss | kl |\n| small | 2.5 | 0.5 |\n| big | 1.5 | 0.25 |\n", LOSS) == []
    )


def test_a_rate_that_was_rounded_to_nothing_is_not_0() -> None:
    assert values("loss: 2.5, lr: 0.0000\n", "train/lr") == []
    assert values("{'loss': 2.5, 'learning_rate': 0.0}\n", "train/lr") == [0.0]


def test_both_ends_of_a_long_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_text("Step 1: loss=2.5\n" + "nothing\n" * 100_000 + "Step 9: loss=0.5\n")
    result = read_excerpt(path)

    assert result is not None
    assert result.columns.get(LOSS).values.tolist() == [2.5, 0.5]


def columns_of(*steps: int) -> Columns:
    columns = Columns()
    for step in steps:
        columns.add(Step(step, 1, 0.0, {LOSS: 1.0}))
    return columns


def test_only_what_is_more_than_the_known_format_gave_counts(tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    path.write_text("Step 1: loss=2.5, kl=0.5\n")

    assert fuller(None, path) is not None
    assert fuller(columns_of(1), path) is not None
    assert fuller(columns_of(1, 2), path) is None
    assert fuller(columns_of(*range(1, 9)), path) is None


def test_a_record_that_was_cut_counts_beside_whole_ones_of_more_numbers(tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    path.write_text("{'loss': 2.5, 'grad_norm': 1.5}\n{'loss': 2.25, 'grad_norm': nan, 'lear")
    columns = named({LOSS: 2.5, NORM: 1.5, "epoch": 0.1, "speed": 3.0, "memory": 9.0})
    result = fuller(columns, path)

    assert result is not None
    assert np.isnan(result.columns.get(NORM).values[-1])


def named(metrics: dict[str, float | None]) -> Columns:
    columns = Columns()
    columns.add(Step(1, 1, 0.0, metrics))
    return columns


def test_columns_get_the_names_that_the_rules_know() -> None:
    columns = named({"avg_loss": 1.0, "gradient_norm": 2.0, "gen_len": 3.0, "tokens": 4.0})
    assert with_meanings(columns).names == [NORM, "response_length/mean", "tokens", LOSS]


def test_a_column_that_has_its_name_keeps_it() -> None:
    columns = named({LOSS: 1.0, "avg_loss": 2.0})
    assert with_meanings(columns) is columns


def test_a_loss_beside_rewards_has_no_level() -> None:
    columns = named({LOSS: 1.0, "avg_reward": 2.0})
    assert with_meanings(columns).names == ["actor/loss", "reward/mean"]


def test_the_loss_of_a_run_with_rewards_stays_what_it_is() -> None:
    columns = named({"actor/loss": 1.0})
    assert with_meanings(columns) is columns


def test_lines_of_numbers_with_commas_are_a_table() -> None:
    assert values("step,loss,grad_norm\n1,2.5,1\n2,2.25,1\n", LOSS) == [2.5, 2.25]
