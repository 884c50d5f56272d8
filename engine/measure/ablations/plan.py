"""The plan of an ablation: arms, seeds and steps. It is written once and never changes."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from engine.base import files, jsonl
from engine.base.errors import UsageError
from engine.base.files import content_hash
from engine.base.typed import to_json
from engine.config.frozen import manifest_config, pinned_config, training_fingerprint
from engine.config.load import Config, load_config, parse_override
from engine.config.places import DATA_KEYS, data_files, data_path
from engine.config.scoring import asks_judge
from engine.config.unread import unread
from engine.data.contract import read_facts, rewrite_prompts, write_with_excerpts
from engine.run.kinds import KINDS, Kind
from engine.run.run import Run, archive_root, check_id

FOLDER = Path("ablations")
BASE = "base"
BASE_FILE = "base.yaml"
MOST_RUNS = 200
MOST_TRIES = 3
CONTRASTIVE = "reward_config.use_contrastive"
DESCRIPTION = "grubrics.description"
VALIDATION_KEYS = ("data.val_files", "data.val_file", "data.val_max_samples")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.=+-]{0,39}")


@dataclass(frozen=True)
class Arm:
    """A variant of the base. ``differences`` are the effective values that differ from the base's,
    those that follow from the overrides included: ``key -> (base, arm)``."""

    name: str
    overrides: tuple[str, ...]
    differences: Mapping[str, tuple[Any, Any]]

    @property
    def slug(self) -> str:
        """The name as a part of the names of its runs and folders, which have fewer signs."""
        return _slug(self.name)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The overrides that were asked for, without the data files written for them."""
        return tuple(text for text in self.overrides if f"={FOLDER}/" not in text.replace("[", ""))


@dataclass(frozen=True)
class Job:
    """One run of the plan: an arm with a seed."""

    run: str
    arm: str
    seed: int
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Rewrite:
    """A data file that an arm trains or validates on: ``source`` with or without excerpts."""

    source: str
    target: str
    use_contrastive: bool


@dataclass(frozen=True)
class AblationPlan:
    """The first arm is the base. ``name`` is that of the base's config, ``kind`` that of its runs.

    ``base.yaml`` beside the plan has every value that somebody set for the base, in the file, on
    the command line or in the environment: a later edit does not change the plan.

    ``stop_worse``: an arm that is worse than the base gets no more seeds. Looking after every seed
    spends a part of the error budget, so the last look has less of it.
    """

    id: str
    name: str
    kind: str
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    steps: int
    stop_worse: bool = False
    rewrites: tuple[Rewrite, ...] = ()

    @property
    def folder(self) -> Path:
        return FOLDER / self.id

    def jobs(self) -> Iterator[Job]:
        """Every run, seed by seed: after the first round each arm has been tried once."""
        kind = KINDS[self.kind]
        for seed in self.seeds:
            for arm in self.arms:
                folder = f"checkpoints/ablations/{self.id}/{arm.slug}-s{seed}"
                overrides = (
                    *arm.overrides,
                    *(f"{key}={seed}" for key in kind.seed_keys),
                    f"{kind.steps_key}={self.steps}",
                    f"{kind.checkpoint_key}={folder}",
                )
                yield Job(f"{self.id}-{arm.slug}-s{seed}", arm.name, seed, overrides)

    def config(self) -> Config:
        """The base. The environment does not change it."""
        return replace(load_config(str(self.folder / BASE_FILE), (), {}), name=self.name)

    def write(self, base: Config) -> None:
        """Write the data of the arms, the base and then ``plan.json``, unless that exists."""
        path = self.folder / "plan.json"
        if path.is_file():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        for file in self.rewrites:
            write_with_excerpts(
                Path(file.source), Path(file.target), use_contrastive=file.use_contrastive
            )
        files.write_atomic(self.folder / BASE_FILE, _pinned(base))
        jsonl.write_json(path, to_json(self))


def run_names(job: Job) -> list[str]:
    """The run IDs of the tries of a job."""
    return [job.run, *(f"{job.run}-{number}" for number in range(2, MOST_TRIES + 1))]


def current_run(job: Job, root: Path) -> Run | None:
    """The newest try of a job; None where none was launched."""
    tries = (find_kept(name, root) for name in reversed(run_names(job)))
    return next((run for run in tries if run is not None), None)


def find_kept(run_id: str, root: Path) -> Run | None:
    """A run below ``root``, archived or not; None for one that was deleted."""
    runs = (Run(folder / run_id) for folder in (root, archive_root(root)))
    return next((run for run in runs if run.manifest_file.is_file()), None)


def read_plan(folder: Path) -> AblationPlan:
    """Read the plan in the folder of an ablation. UsageError if there is none, or if it is none
    that ``make_plan`` makes: a plan that was edited counts a run twice, or names other runs."""
    path = folder / "plan.json"
    raw = jsonl.read_json(path)
    if raw is None and not path.is_file():
        raise UsageError(f"{folder}: not an ablation, it has no plan.json")
    try:
        plan = msgspec.convert(raw, AblationPlan)
    except msgspec.ValidationError:
        plan = None
    if plan is None or plan.id != check_id(folder.name) or not _is_plan(plan):
        raise UsageError(
            f"{path}: damaged or edited. Delete it and give the command that planned it again: "
            "runs that have ended are kept"
        )
    return plan


def _is_plan(plan: AblationPlan) -> bool:
    """Whether the base comes first, each arm and each seed is there once, and names are paths."""
    names, slugs = [arm.name for arm in plan.arms], {arm.slug for arm in plan.arms}
    seeds, steps = plan.seeds, plan.steps
    return (
        plan.kind in KINDS
        and names[:1] == [BASE]
        and all(_NAME.fullmatch(name) for name in names)
        and len(slugs) == len(names)
        and len(set(seeds)) == len(seeds) >= 1
        and steps >= 1
        and len(names) * len(seeds) <= MOST_RUNS
    )


def split_values(text: str) -> tuple[str, ...]:
    """The values of a knob, separated by commas; those within brackets belong to one value.

    >>> split_values("1e-4, [a,b]")
    ('1e-4', '[a,b]')
    """
    parts = re.split(r",(?![^\[{(]*[\]})])", text)
    return tuple(dict.fromkeys(part.strip() for part in parts))


def base_files() -> list[Path]:
    """The bases of the ablations of this folder: they may name a checkpoint to start from."""
    return sorted(FOLDER.glob(f"*/{BASE_FILE}"))


def list_plans() -> list[AblationPlan]:
    """The ablations of this folder, the newest first; those that cannot be read are left out."""
    files = [path for path in FOLDER.glob("*/plan.json") if path.is_file()]
    plans = []
    for path in sorted(files, key=lambda path: path.stat().st_mtime, reverse=True):
        with suppress(UsageError):
            plans.append(read_plan(path.parent))
    return plans


def make_plan(
    base: Config,
    knobs: Mapping[str, Sequence[str]],
    named: Sequence[tuple[str, Sequence[str]]],
    seeds: int,
    steps: int,
    *,
    allow_equal: bool = False,
    stop_worse: bool = False,
) -> AblationPlan:
    """Plan the base, every combination of the knobs' values, and the named arms.

    Nothing is written. UsageError for an arm that trains as another one does, for a value without
    effect or one that makes arms incomparable, and for numbers that make no plan. ``allow_equal``
    accepts equal arms, to see how much is noise.
    """
    if seeds < 1 or steps < 1:
        raise UsageError(f"--seeds {seeds} and --steps {steps} must be at least 1")
    _require_validation(base)
    wanted = _named_once([(BASE, ()), *knob_arms(knobs), *named])
    if len(wanted) * seeds > MOST_RUNS:
        raise UsageError(f"{len(wanted)} arms x {seeds} seeds: more than {MOST_RUNS} runs")
    data = [content_hash(path) for path in data_files(base) if path.is_file()]
    values = training_fingerprint(base), _chosen_values(base)
    identity = [*values, data, [*wanted.items()], seeds, steps, stop_worse]
    text = json.dumps(identity, default=str)
    plan_id = f"{base.name}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    arms, rewrites = _make_arms(base, wanted, FOLDER / plan_id, allow_equal)
    first = int(base.get(base.kind.seed_keys[0]))
    plan = AblationPlan(
        plan_id,
        base.name,
        base.kind.name,
        arms,
        tuple(range(first, first + seeds)),
        steps,
        stop_worse,
        rewrites,
    )
    for job in plan.jobs():
        check_id(run_names(job)[-1])
    return plan


def _chosen_values(base: Config) -> list[tuple[str, Any]]:
    """The values that somebody set for the base, also those without an effect on the training, such
    as when to save: the runs of a plan have them. The plan itself sets its steps and folders."""
    config = manifest_config(base, Path())
    left_out = (base.kind.steps_key, base.kind.checkpoint_key, DESCRIPTION)
    chosen = (key for key, entry in config.items() if entry.is_chosen and key not in left_out)
    return [(key, config[key].value) for key in sorted(chosen)]


def find_similar(plan: AblationPlan, base: Config) -> tuple[str, dict[str, tuple[Any, Any]]] | None:
    """The newest other plan with the same arms, seeds and steps, and the values in which its base
    differs from ``base``: its runs are not those of ``plan``."""
    shape = [(arm.name, arm.wanted) for arm in plan.arms], plan.seeds, plan.steps
    left_out = (base.kind.steps_key, base.kind.checkpoint_key, DESCRIPTION)
    for other in list_plans():
        is_other = other.id != plan.id and other.name == plan.name and other.kind == plan.kind
        arms = [(arm.name, arm.wanted) for arm in other.arms]
        if is_other and (arms, other.seeds, other.steps) == shape:
            differing = differences(other.config(), _pinned_base(base))
            return other.id, {key: differing[key] for key in differing if key not in left_out}
    return None


def _make_arms(
    base: Config, wanted: Mapping[str, tuple[str, ...]], folder: Path, allow_equal: bool
) -> tuple[tuple[Arm, ...], tuple[Rewrite, ...]]:
    arms, rewrites, fingerprints = [], dict[str, Rewrite](), dict[str, str]()
    pinned = _pinned_base(base)
    for name, own in wanted.items():
        config = pinned.with_overrides(own)
        _check_arm(name, config)
        if written := _rewrites(name, config, base, folder):
            rewrites.update({file.target: file for file in written})
            config = config.with_overrides([*_data_overrides(config, written)])
        if not allow_equal:
            _refuse_equal(name, config, fingerprints)
        arms.append(Arm(name, config.overrides, differences(pinned, config)))
    return tuple(arms), tuple(rewrites.values())


def arm_configs(plan: AblationPlan, base: Config) -> list[Config]:
    """The config of each arm, for estimates: with the planned steps and the base's data files, as
    those of the arms may not be written yet."""
    steps = f"{base.kind.steps_key}={plan.steps}"
    pinned = _pinned_base(base)
    return [
        pinned.with_overrides(
            [text for text in arm.overrides if text.partition("=")[0] not in DATA_KEYS] + [steps]
        )
        for arm in plan.arms
    ]


def _pinned_base(base: Config) -> Config:
    """The base as a written plan loads it: without overrides of its own."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / BASE_FILE
        path.write_text(_pinned(base))
        try:
            config = load_config(str(path), (), {})
        except UsageError as error:
            raise UsageError(str(error).replace(str(path), str(base.path))) from error
    return replace(config, name=base.name, path=base.path)


def _pinned(base: Config) -> str:
    return pinned_config(manifest_config(base, Path()), f"# The base of an ablation: {base.path}")


def differences(base: Config, arm: Config) -> dict[str, tuple[Any, Any]]:
    """The effective values of the config that differ: ``key -> (base, arm)``."""
    keys = sorted(base.values.keys() | arm.values.keys())
    pairs = ((key, (base.values.get(key), arm.values.get(key))) for key in keys)
    return {key: pair for key, pair in pairs if pair[0] != pair[1]}


def knob_arms(knobs: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """An arm with its overrides for every combination of values, named by the end of each key:
    ``lr=2e-4+rank=8``."""
    if not knobs:
        return
    for values in product(*knobs.values()):
        pairs = list(zip(knobs, values, strict=True))
        name = "+".join(f"{key.rpartition('.')[2]}={value}" for key, value in pairs)
        yield re.sub(r"[^A-Za-z0-9.=+-]", "-", name), tuple(f"{k}={v}" for k, v in pairs)


def _named_once(arms: Sequence[tuple[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """The overrides by name. UsageError where two arms have one name: one of them would be lost."""
    named: dict[str, tuple[str, ...]] = {}
    slugs = set[str]()
    for name, overrides in arms:
        if _slug(name) in slugs:
            raise UsageError(
                f"arm '{name}': two arms have this name; choose another: --arm 'NAME KEY=VALUE'"
            )
        slugs.add(_slug(name))
        named[name] = tuple(overrides)
    return named


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)


def _require_validation(base: Config) -> None:
    """UsageError where no run would measure what the arms are compared by."""
    key = base.kind.validate_every_key
    if (every := base.get(key)) is not None and every < 1:
        raise UsageError(f"{key}={every} validates nothing, so arms could not be compared")
    if not any(base.get(key) for key in DATA_KEYS if ".val_" in key):
        raise UsageError(f"{base.path}: no validation file, so arms could not be compared")


def _check_arm(name: str, config: Config) -> None:
    """UsageError for a name or an override of the arm that the plan cannot use."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"arm '{name}': a name has up to 40 letters, digits and . = + -; choose one: "
            "--arm 'NAME KEY=VALUE'"
        )
    own = {change.key for change in config.changes}
    if len(own) < len(config.overrides):
        keys = [parse_override(text)[0] for text in config.overrides]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UsageError(f"arm '{name}': {twice} is set twice; an arm has one value for a key")
    for key, reason in _planned_keys(config.kind).items():
        if key in own:
            raise UsageError(f"arm '{name}': {key}: {reason}")
    for value in unread(config):
        if value.key in own:
            raise UsageError(f"arm '{name}': {value.key} has no effect: {value.reason}")


def _planned_keys(kind: Kind) -> dict[str, str]:
    """Keys that no arm can set, with the reason."""
    return {
        kind.steps_key: "all arms train the same steps; set them with --steps",
        kind.checkpoint_key: "every run gets a folder of its own",
        **dict.fromkeys(kind.seed_keys, "every arm gets the same seeds; set how many with --seeds"),
        **dict.fromkeys(VALIDATION_KEYS, "arms are compared on the same items"),
    }


def _refuse_equal(name: str, config: Config, fingerprints: dict[str, str]) -> None:
    fingerprint = training_fingerprint(config)
    if fingerprint in fingerprints:
        raise UsageError(
            f"arm '{name}' trains exactly as '{fingerprints[fingerprint]}'. Leave it out, or "
            "measure the noise with --allow-equal"
        )
    fingerprints[fingerprint] = name


def _rewrites(name: str, config: Config, base: Config, folder: Path) -> tuple[Rewrite, ...]:
    """The data files to write for an arm that has excerpts in its prompts where the base has none,
    or the reverse: a config alone changes no prompt."""
    wanted = bool(config.get(CONTRASTIVE))
    if not asks_judge(config) or wanted == bool(base.get(CONTRASTIVE)):
        return ()
    rewrites = []
    for source in data_files(config):
        facts = read_facts(source)
        if facts is not None and facts.use_contrastive == wanted:
            continue
        try:
            rewrite_prompts(source, use_contrastive=wanted)
        except UsageError as error:
            raise UsageError(f"arm '{name}': {CONTRASTIVE}: {error}") from error
        digest = hashlib.sha256(str(source).encode()).hexdigest()[:6]
        target = folder / "data" / ("excerpts" if wanted else "plain") / f"{digest}-{source.name}"
        rewrites.append(Rewrite(str(source), str(target), wanted))
    return tuple(rewrites)


def _data_overrides(config: Config, rewrites: Sequence[Rewrite]) -> Iterator[str]:
    """The overrides that make an arm use the rewritten files."""
    targets = {file.source: file.target for file in rewrites}
    for key in DATA_KEYS:
        value = config.get(key)
        if isinstance(value, list):
            names = (targets.get(str(data_path(name)), str(name)) for name in value)
            yield f"{key}=[{','.join(names)}]"
        elif value:
            yield f"{key}={targets.get(str(data_path(value)), value)}"


PRESETS: Mapping[str, tuple[str, ...]] = {
    "no-excerpts": ("reward_config.use_contrastive=false",),
    "no-information": ("reward_config.lambda_info=0",),
    "no-defense": ("reward_config.lambda_defense=0",),
    "alignment-only": ("reward_config.lambda_info=0", "reward_config.lambda_defense=0"),
}
"""Overrides by name: without answer excerpts in the prompt, without the bonus for information,
without the penalty for equal scores, and without both terms."""

SHORT = {"A1": "no-excerpts", "A2": "no-information", "A3": "no-defense", "A4": "alignment-only"}
"""The names of the same arms in launch guides."""


def preset_arm(name: str) -> tuple[str, tuple[str, ...]] | None:
    """The name and the overrides of the preset with that name, or None."""
    full = SHORT.get(name, name)
    return (name, PRESETS[full]) if full in PRESETS else None
