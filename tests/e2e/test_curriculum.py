"""A curriculum of three phases: ten steps, undisturbed and killed in the second phase."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.base import jsonl
from engine.run.checkpoints.model_folder import missing_parts
from engine.run.history.train_log import history, read_steps
from engine.run.run import Run
from engine.run.state import observed_state
from tests.e2e.project import Project
from tests.e2e.test_training import kill_everything, wait_for_step

pytestmark = pytest.mark.slow

PHASES = "0.8:0.2:0.4 0.5:0.5:0.3:0.5 0.2:0.8:0.3:0.1"
STEPS, BATCH, RATE = 10, 5, 2e-4
SHARES = {1: Fraction(4, 5), 2: Fraction(1, 2), 3: Fraction(1, 5)}
SAVED, KILLED_AFTER = 5, 6
"""The checkpoint and the step after which a run is killed: both in the second phase."""
DIGITS = """
def compute_score(solution_str, **_):
    return sum(c.isdigit() for c in solution_str) / max(1, len(solution_str))
"""


@pytest.fixture(scope="module")
def project(tiny_world: Project) -> Project:
    """The tiny world with its training rows in two files, and a reward that needs no SFT."""
    table = pq.read_table(tiny_world.path / "data/tiny/processed/train.parquet")
    pq.write_table(table.slice(0, 20), tiny_world.path / "verifiable.parquet")
    pq.write_table(table.slice(20, 60), tiny_world.path / "open.parquet")
    (tiny_world.path / "digits.py").write_text(DIGITS)
    return tiny_world


def arguments(name: str) -> list[str]:
    return [
        "grpo_tiny",
        "actor_rollout_ref.model.path=data/tiny/model",
        "data.train_files=[verifiable.parquet,open.parquet]",
        f"data.train_batch_size={BATCH}",
        "data.max_response_length=8",
        "reward.custom_reward_function.path=digits.py",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={BATCH}",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=10",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=10",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=10",
        "actor_rollout_ref.rollout.n=2",
        f"actor_rollout_ref.actor.optim.lr={RATE}",
        "actor_rollout_ref.actor.optim.lr_warmup_steps=0",
        f"trainer.total_training_steps={STEPS}",
        f"trainer.save_freq={SAVED}",
        "trainer.test_freq=-1",
        "trainer.val_before_train=false",
        f"trainer.experiment_name={name}",
        f"--curriculum={PHASES}",
        "--name",
        name,
    ]


@pytest.fixture(scope="module")
def run(project: Project) -> Run:
    answer = project.json("launch", *arguments("straight"), "--wait", expect=(0, 1))
    assert answer["state"] == "finished", answer
    return Run(project.path / "runs" / "straight")


@pytest.fixture(scope="module")
def resumed(project: Project) -> Run:
    """Killed in the second phase, after its checkpoint, and resumed."""
    killed = killed_run(project)
    answer = project.json("resume", killed.id, "--wait", expect=(0, 1))
    assert (answer["from_step"], answer["state"]) == (SAVED, "finished"), answer
    return killed


def killed_run(project: Project) -> Run:
    """A run killed in its course; one that ends first is replaced by another one."""
    for name in ("killed", "killed-2", "killed-3"):
        project.json("launch", *arguments(name))
        run = Run(project.path / "runs" / name)
        wait_for_step(run, KILLED_AFTER)
        kill_everything(run)
        if observed_state(run).state == "lost":
            return run
    raise AssertionError("every run came to its end before it was killed")


def values(run: Run, *names: str) -> dict[int, tuple[float | None, ...]]:
    steps = history(read_steps(run.train_log))
    return {step.step: tuple(step.metrics.get(name) for name in names) for step in steps}


def questions(run: Run) -> dict[int, set[str]]:
    """The questions of each step's rollouts, whichever attempt trained on them last."""
    found = defaultdict[int, set[str]](set)
    for attempt in run.attempts():
        for path in (attempt.path / "rollouts").glob("*.jsonl"):
            found[int(path.stem)] = {line["input"] for line in jsonl.read(path)}
    return found


def edges(run: Run) -> list[tuple[int, str, int]]:
    return [(edge.phase, edge.edge, edge.step) for edge in read_phase_edges(run)]


@pytest.mark.row("G16")
def test_ten_steps_are_phases_of_four_three_and_three(run: Run) -> None:
    phases = values(run, "curriculum/phase")
    assert [phases[step] for step in range(1, STEPS + 1)] == [(1,)] * 4 + [(2,)] * 3 + [(3,)] * 3


@pytest.mark.row("G16")
def test_each_phase_has_its_share_of_rows_to_within_one(run: Run) -> None:
    shares = values(run, "curriculum/phase", "curriculum/verifiable_share")
    for phase, share in SHARES.items():
        found = [float(value or 0) for number, value in shares.values() if number == phase]
        assert abs(sum(found) * BATCH - len(found) * BATCH * float(share)) < 1


@pytest.mark.row("G17")
def test_a_phase_starts_with_the_weights_at_the_end_of_the_one_before(run: Run) -> None:
    found = list(read_phase_edges(run))
    assert edges(run) == [
        (1, "start", 1),
        (1, "end", 4),
        (2, "start", 5),
        (2, "end", 7),
        (3, "start", 8),
        (3, "end", 10),
    ]
    assert find_broken_chain(found) is None
    assert len({edge.parameters_sha256 for edge in found}) == 4  # Each phase changed them.


@pytest.mark.row("G16")
def test_the_learning_rate_is_scaled_by_phase(run: Run) -> None:
    rates = values(run, "actor/lr")
    # verl logs the rate of the step to come.
    expected = [RATE] * 3 + [RATE / 2] * 3 + [RATE / 10] * 4
    assert [rates[step][0] for step in range(1, STEPS + 1)] == pytest.approx(expected)


@pytest.mark.thorough
@pytest.mark.row("G17")
def test_a_run_killed_in_the_second_phase_has_the_history_of_an_undisturbed_one(
    run: Run, resumed: Run
) -> None:
    names = (
        "curriculum/phase",
        "curriculum/verifiable_share",
        "reward/mean",
        "actor/loss",
        "actor/grad_norm",
        "actor/lr",
    )
    assert values(resumed, *names) == values(run, *names)
    assert questions(resumed) == questions(run)


@dataclass(frozen=True)
class PhaseEdge:
    """The start or the end of a phase. ``step`` is the first or the last of the phase."""

    phase: int
    edge: str
    step: int
    parameters_sha256: str


def read_phase_edges(run: Run) -> Iterator[PhaseEdge]:
    """The edges in the order they were reached, over all attempts of the run."""
    for attempt in run.attempts():
        for line in jsonl.read(attempt.path / "phases.jsonl"):
            phase, step = jsonl.integer(line.get("phase")), jsonl.integer(line.get("step"))
            edge, digest = jsonl.line(line.get("edge")), jsonl.line(line.get("parameters_sha256"))
            if phase is not None and step is not None and edge and digest:
                yield PhaseEdge(phase, edge, step, digest)


def find_broken_chain(edges: Iterable[PhaseEdge]) -> PhaseEdge | None:
    """The first start of a phase whose parameters are not those at the end of the phase before."""
    ends: dict[int, str] = {}
    for edge in edges:
        if edge.edge == "end":
            ends[edge.phase] = edge.parameters_sha256
        elif edge.phase > 1 and ends.get(edge.phase - 1) != edge.parameters_sha256:
            return edge
    return None


def last_edges(run: Run) -> dict[tuple[int, str], PhaseEdge]:
    return {(edge.phase, edge.edge): edge for edge in read_phase_edges(run)}


@pytest.mark.thorough
def test_the_weights_of_a_resumed_run_pass_the_same_edges(run: Run, resumed: Run) -> None:
    assert find_broken_chain(read_phase_edges(resumed)) is None
    assert last_edges(resumed) == last_edges(run)


def test_the_run_ends_with_a_model_that_loads(project: Project, run: Run) -> None:
    final = project.path / "checkpoints/grubrics-transfer/straight/final"
    assert missing_parts(final) == []
    assert f"final model: {Path('checkpoints/grubrics-transfer/straight/final')}" in (
        run.attempt(1).console.read_text()
    )


def test_a_checkpoint_is_exported_as_a_model_with_the_same_logits(
    project: Project, run: Run
) -> None:
    answer = project.json("export", f"{run.id}:{SAVED}", "model")
    assert (answer["prompts"], answer["dtype"]) == (8, "float32")
    assert answer["largest_difference"] <= 1e-5
    assert missing_parts(project.path / "model") == []
    refused = project.run("export", run.id, "model")
    assert refused.returncode == 2 and "model exists" in refused.stderr
    assert not [path for path in project.path.iterdir() if path.name.startswith(".model")]


@pytest.mark.parametrize(
    ("phases", "problem"),
    [
        ("0.8:0.3:1", "the shares of phase '0.8:0.3:1' sum to 1.1"),
        ("0.8:0.2:0.4 0.5:0.5:0.5", "the shares of the steps sum to 0.9"),
        ("0.8:0.2", "VERIFIABLE:OPEN:STEPS"),
        ("0.8:0.2:0.99 0.2:0.8:0.01", "phase 2 has no step"),
    ],
)
def test_phases_that_cannot_be_are_refused_in_a_line(
    project: Project, phases: str, problem: str
) -> None:
    done = project.run("launch", *arguments("refused"), f"--curriculum={phases}")
    assert done.returncode == 2
    assert problem in done.stderr and len(done.stderr.splitlines()) == 1
    assert not Path(project.path, "runs", "refused").exists()


def test_the_phases_are_shown_before_the_launch(project: Project) -> None:
    done: Any = project.run("launch", *arguments("planned"), "--dry-run")
    assert "phase 2: steps 5 to 7, 0.5 verifiable, 0.5 open-ended, learning rate x 0.5" in (
        done.stdout
    )
