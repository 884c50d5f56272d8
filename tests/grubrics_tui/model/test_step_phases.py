"""The split of each step's time: the same whether steps come one by one or all at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.run.history.train_log import Step
from grubrics_tui.model.history import History
from grubrics_tui.model.step_phases import WHOLE, StepPhases

SECONDS = st.none() | st.floats(0, 100)
Line = tuple[int, int, dict[str, float | None]]
LINES = st.lists(
    st.tuples(
        st.integers(1, 8),
        st.integers(1, 2),
        st.dictionaries(
            st.sampled_from(["timing_s/step", "timing_s/gen", "timing_s/reward"]), SECONDS
        ),
    ),
    max_size=12,
)


def told(split: StepPhases, history: History) -> object:
    stacks = split.of(history)
    return stacks.parts, stacks.x.tolist(), stacks.sizes.tolist()


@given(LINES)
def test_step_by_step_it_is_the_same_as_anew(
    lines: list[Line],
) -> None:
    history, growing = History(), StepPhases()
    for number, (step, attempt, metrics) in enumerate(lines):
        history.columns.add(Step(step, attempt, 1000.0 + number, metrics))
        assert told(growing, history) == told(StepPhases(), history)


def test_steps_without_phases_are_whole() -> None:
    history = History()
    for step in (1, 2):
        history.columns.add(Step(step, 1, 1000.0, {"timing_s/step": 4.0}))
    assert told(StepPhases(), history) == (WHOLE, [1.0, 2.0], [[4.0], [4.0]])
