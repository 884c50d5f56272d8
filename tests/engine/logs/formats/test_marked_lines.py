"""The steps of a console are those of its marked lines, in blocks of any size."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.logs.formats.format import LineFormat, Parser, lines_with
from engine.logs.formats.hf import HfConsole, HfConsoleFormat
from engine.logs.formats.verl import VerlConsole, VerlConsoleFormat
from engine.run.history.train_log import Step


def by_blocks(log_format: LineFormat, parser: Parser, blocks: Iterable[bytes]) -> list[Step]:
    return [step for block in blocks for step in parser.feed(lines_with(block, log_format.marks))]


def lines_of(data: bytes) -> list[bytes]:
    return re.findall(rb"[^\r\n]*[\r\n]|[^\r\n]+\Z", data)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Blocks of whole lines."""
    lines = lines_of(data)
    edges = sorted({0, *(place % (len(lines) + 1) for place in places), len(lines)})
    return [b"".join(lines[start:end]) for start, end in pairwise(edges)]


NUMBERS = st.one_of(
    st.floats(-1e90, 1e90).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["nan", "NaN", "inf", "-inf", "1e300", "1e400", "1e5", "-", "True", "hello"]),
    st.sampled_from(["-0.0", "007", "1.", ".5", "+1", "0.5an"]),
)
WRAPPED = st.tuples(
    st.sampled_from(["{}", "{}", "{}", "np.float64({})", "tensor({}, device='cuda:0')"]), NUMBERS
).map(lambda found: found[0].format(found[1]))
NAMES = st.sampled_from(
    ["actor/pg_loss", "critic/score/mean", "loss", "train/loss", "a:b", "a b", "mean@1", "mean@11"]
    + [f"val-{part}/reward/mean@1" for part in ("core/x", "aux/y")]
)
LEADS = st.sampled_from(
    [
        "",
        "",
        "(TaskRunner pid=1) ",
        "\x1b[36m(T pid=22)\x1b[0m ",
        "x step:3 - a:1 ",
        "global_",
        "bar\r",
    ]
)
ENDS = st.sampled_from(
    ["\n", "\n", "\r\n", "\r", "\x1b[0m\n", " [repeated 2x across cluster]\n", " \n"]
)


@st.composite
def verl_logs(draw: st.DrawFn) -> bytes:
    """Stretches of lines of one layout, with others between them."""
    log, step = "", 0
    for _ in range(draw(st.integers(1, 5))):
        names = draw(st.lists(NAMES, min_size=1, max_size=4))
        lead, end = draw(LEADS), draw(ENDS)
        odd = draw(st.booleans())
        for _ in range(draw(st.integers(1, 6))):
            step = max(0, step + draw(st.sampled_from([1, 1, 1, 0, -2])))
            number = WRAPPED if odd else st.floats(-9, 9).map(repr)
            values = " - ".join(f"{name}:{draw(number)}" for name in names)
            log += f"{lead}step:{step} - {values}{end}" + draw(st.sampled_from(["", "", "words\n"]))
    return log.encode()


@given(verl_logs(), st.lists(st.integers(0, 100), max_size=4))
def test_marked_lines_of_verl_are_all_its_steps(log: bytes, places: list[int]) -> None:
    steps = by_blocks(VerlConsoleFormat(), VerlConsole(), cut(log, places))
    assert steps == VerlConsole().feed(lines_of(log))


KEYS = st.sampled_from(
    ["loss", "grad_norm", "learning_rate", "eval_loss", "train_runtime", "reward", "rewards/a/mean",
     "train/loss", "step", "epoch", "kl"]
)  # fmt: skip
BARS = st.tuples(st.integers(0, 30), st.sampled_from("\r\n")).map(
    lambda found: f" 38%|###8      | {found[0]}/30 [00:48<01:19,  1.89s/it]{found[1]}"
)


@st.composite
def hf_logs(draw: st.DrawFn) -> bytes:
    log = ""
    for _ in range(draw(st.integers(1, 5))):
        keys = draw(st.lists(KEYS, min_size=1, max_size=4))
        quote, odd = draw(st.sampled_from(["", "'"])), draw(st.booleans())
        for _ in range(draw(st.integers(1, 6))):
            number = NUMBERS if odd else st.floats(-9, 9).map(repr)
            pairs = ", ".join(f"'{key}': {quote}{draw(number)}{quote}" for key in keys)
            between = st.one_of(st.just(""), st.just(""), BARS, st.just("{'role': 'user'}\n"))
            log += (
                draw(between) + "{" + pairs + "}" + draw(st.sampled_from(["\n", "\n", "\r\n", " "]))
            )
    return log.encode()


@pytest.mark.long
@given(hf_logs(), st.lists(st.integers(0, 100), max_size=4))
def test_marked_lines_of_a_trainer_are_all_its_steps(log: bytes, places: list[int]) -> None:
    steps = by_blocks(HfConsoleFormat(), HfConsole(), cut(log, places))
    assert steps == HfConsole().feed(lines_of(log))


def test_the_last_bar_above_a_dict_counts() -> None:
    """Other bars of a log have totals of their own."""
    log = b" 10%|#  | 5/50 [00:01<00:02, 1s/it]\n  8%|#  | 7/90 [00:01<00:02, 1s/it]\r{'loss': 1}\n"
    (step,) = by_blocks(HfConsoleFormat(), HfConsole(), [log])
    assert (step.step, step.metrics) == (7, {"train/loss": 1.0})
