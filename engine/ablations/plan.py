"""The plan of an ablation: arms, seeds and steps. It is written once and never changes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.recipe.frozen import training_fingerprint
from engine.recipe.recipe import Recipe, load_recipe
from engine.recipe.unread import unread
from engine.runs.rundir import RunDir

FOLDER = Path("ablations")
BASE = "base"
MOST_RUNS = 200
MOST_TRIES = 3

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.=+-]{0,39}")


@dataclass(frozen=True)
class Arm:
    """A variant of the base. ``differences`` are the effective values that differ from the base's,
    those that follow from the overrides included: ``key -> (base, arm)``."""

    name: str
    overrides: tuple[str, ...]
    differences: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Job:
    """One run of the plan: an arm with a seed."""

    run: str
    arm: str
    seed: int
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class AblationPlan:
    """``config`` names the base; ``overrides`` hold for all arms. The first arm is the base."""

    id: str
    config: str
    overrides: tuple[str, ...]
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    steps: int

    @property
    def folder(self) -> Path:
        return FOLDER / self.id

    def jobs(self) -> Iterator[Job]:
        """Every run, seed by seed: after the first round each arm has been tried once."""
        kind = load_recipe(self.config, self.overrides).kind
        for seed in self.seeds:
            for arm in self.arms:
                run = f"{self.id}-{arm.name}-s{seed}"
                folder = f"checkpoints/ablations/{self.id}/{arm.name}-s{seed}"
                yield Job(
                    run,
                    arm.name,
                    seed,
                    (
                        *self.overrides,
                        *arm.overrides,
                        *(f"{key}={seed}" for key in kind.seed_keys),
                        f"{kind.steps_key}={self.steps}",
                        f"{kind.checkpoint_key}={folder}",
                    ),
                )

    def write(self) -> None:
        """Write ``plan.json``, unless it exists."""
        path = self.folder / "plan.json"
        if not path.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            jsonl.write_json(path, asdict(self))


def run_names(job: Job) -> list[str]:
    """The run IDs of the tries of a job."""
    return [job.run, *(f"{job.run}-{number}" for number in range(2, MOST_TRIES + 1))]


def current_run(job: Job, root: Path) -> RunDir | None:
    """The newest try of a job; None where none was launched."""
    tries = [RunDir(root / name) for name in run_names(job)]
    return next((run for run in reversed(tries) if run.manifest.is_file()), None)


def read_plan(folder: Path) -> AblationPlan:
    """The plan of an ablation's folder. UsageError where there is none."""
    raw = jsonl.read_json(folder / "plan.json")
    if raw is None:
        raise UsageError(f"{folder}: not an ablation, it has no plan.json")
    try:
        arms = tuple(
            Arm(
                str(arm["name"]),
                tuple(map(str, arm["overrides"])),
                {key: (values[0], values[1]) for key, values in arm["differences"].items()},
            )
            for arm in raw["arms"]
        )
        return AblationPlan(
            str(raw["id"]),
            str(raw["config"]),
            tuple(map(str, raw["overrides"])),
            arms,
            tuple(map(int, raw["seeds"])),
            int(raw["steps"]),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UsageError(f"{folder / 'plan.json'}: not a plan of an ablation") from error


def make_plan(
    config: str,
    overrides: Sequence[str],
    knobs: Mapping[str, Sequence[str]],
    named: Mapping[str, Sequence[str]],
    seeds: int,
    steps: int,
    *,
    allow_equal: bool = False,
) -> AblationPlan:
    """Plan the base, every combination of the knobs' values, and the named arms.

    UsageError for an arm that trains as another one does, for a value without effect, and for
    numbers that make no plan. ``allow_equal`` accepts equal arms, to see how much is noise.
    """
    if seeds < 1 or steps < 1:
        raise UsageError(f"--seeds {seeds} and --steps {steps} must be at least 1")
    base = load_recipe(config, overrides)
    wanted = {BASE: (), **dict(_combinations(knobs)), **{k: tuple(v) for k, v in named.items()}}
    if len(wanted) * seeds > MOST_RUNS:
        raise UsageError(f"{len(wanted)} arms x {seeds} seeds: more than {MOST_RUNS} runs")
    recipes = {name: load_recipe(config, [*overrides, *own]) for name, own in wanted.items()}
    for name, own in wanted.items():
        _check_arm(name, own, recipes[name])
    if not allow_equal:
        _refuse_equal(recipes)
    arms = tuple(
        Arm(name, tuple(own), differences(base, recipes[name])) for name, own in wanted.items()
    )
    identity = [config, [*overrides], [[arm.name, arm.overrides] for arm in arms], seeds, steps]
    text = json.dumps([identity, training_fingerprint(base)], default=str)
    plan_id = f"{base.name}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    first = int(base.get(base.kind.seed_keys[0]))
    numbers = tuple(range(first, first + seeds))
    return AblationPlan(plan_id, config, tuple(overrides), arms, numbers, steps)


def differences(base: Recipe, arm: Recipe) -> dict[str, tuple[Any, Any]]:
    """The effective values of the config that differ: ``key -> (base, arm)``."""
    keys = sorted(base.values.keys() | arm.values.keys())
    pairs = ((key, (base.values.get(key), arm.values.get(key))) for key in keys)
    return {key: pair for key, pair in pairs if pair[0] != pair[1]}


def _combinations(knobs: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every combination of values, named by the end of each key: ``lr=2e-4+rank=8``."""
    if not knobs:
        return
    for values in product(*knobs.values()):
        pairs = list(zip(knobs, values, strict=True))
        name = "+".join(f"{key.rpartition('.')[2]}={value}" for key, value in pairs)
        yield re.sub(r"[^A-Za-z0-9.=+-]", "-", name), tuple(f"{k}={v}" for k, v in pairs)


def _check_arm(name: str, overrides: Sequence[str], recipe: Recipe) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"arm '{name}': a name has up to 40 letters, digits and . = + -")
    own = {text.partition("=")[0] for text in overrides}
    for value in unread(recipe):
        if value.key in own:
            raise UsageError(f"arm '{name}': {value.key} has no effect: {value.reason}")


def _refuse_equal(recipes: Mapping[str, Recipe]) -> None:
    known: dict[str, str] = {}
    for name, recipe in recipes.items():
        fingerprint = training_fingerprint(recipe)
        if fingerprint in known:
            raise UsageError(
                f"arm '{name}' trains exactly as '{known[fingerprint]}'. Leave it out, or measure "
                "the noise with --allow-equal"
            )
        known[fingerprint] = name
