"""Plan a launch: of a config, or of a run's config again. A run gets a checkpoint folder of its own
if another run's checkpoints are in the way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.base.errors import UsageError, shorten, with_advice
from engine.checks.checkpoint import folder_objection
from engine.config.load import Config
from engine.config.places import checkpoint_dir
from engine.launch.drift import describe_drift, find_drift
from engine.launch.launcher import LaunchPlan, choose_directory, launch
from engine.launch.queueing import ticket
from engine.launch.rerun import config_of, config_of_source, require_launch_folder
from engine.run.manifest import Parent, Ticket
from engine.run.run import Run

_DEVICE = re.compile(r"(?P<kind>cpu|cuda)(?::(?P<gpus>\d+(?:,\d+)*))?")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


def config_for_launch(
    source: str | Run, overrides: Sequence[str], runs: Path
) -> tuple[Config, Run | None]:
    """The config of that name or path, else that of the run with this ID or of ``source`` itself;
    and the run. A run keeps the environment of its launch.

    UsageError for a run of another folder, or one that is not trusted.
    """
    if isinstance(source, str):
        config, run = config_of_source(source, overrides, runs)
    else:
        config, run = config_of(source).with_overrides(overrides), source
    if run is not None:
        require_launch_folder(run)
    return config, run


@dataclass(frozen=True)
class Order:
    """How a config is launched. Of several ``seeds``, each is a run that waits for its turn in the
    queue; without any, the seed is that of the config."""

    name: str | None = None
    seeds: tuple[int, ...] = ()
    after: str | None = None
    """The run that must finish first."""
    queue: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the trainer gets besides the environment of the launch."""

    @property
    def takes_turn(self) -> bool:
        """Whether the runs wait in the queue."""
        return self.queue or len(self.seeds) > 1


@dataclass(frozen=True)
class Device:
    """Where a run trains. ``variables`` restrict it to GPUs, numbered as in ``nvidia-smi``."""

    override: str
    variables: Mapping[str, str] = field(default_factory=dict)


def parse_device(text: str, env: Mapping[str, str]) -> Device:
    """Return the device of ``--device``: ``cpu``, ``cuda``, ``cuda:1`` or ``cuda:0,1``, as PyTorch
    writes it.

    UsageError for another text, and for a GPU that ``env`` hides from the shell, or its job.
    """
    match = _DEVICE.fullmatch(text)
    if match is None or (match["kind"] == "cpu" and match["gpus"]):
        raise UsageError(
            f"--device '{shorten(text)}' is no device. Write cpu, cuda, cuda:1 or cuda:0,1"
        )
    override = f"grubrics.device={match['kind']}"
    if match["gpus"] is None:
        return Device(override)
    gpus = [str(int(gpu)) for gpu in match["gpus"].split(",")]
    if len({*gpus}) < len(gpus):
        raise UsageError(f"--device {text} names a GPU twice")
    allowed = env.get(_VISIBLE)
    names = [name.strip() for name in (allowed or "").split(",")]
    # Other names, such as those of MIG slices, cannot be compared with numbers.
    is_numbered = all(name.isdecimal() or name in ("", "-1") for name in names)
    if (
        allowed is not None
        and is_numbered
        and (hidden := [gpu for gpu in gpus if gpu not in names])
    ):
        raise UsageError(
            f"--device {text}: {_VISIBLE}={allowed} hides GPU {', '.join(hidden)}; choose one of "
            f"its GPUs, or unset {_VISIBLE}"
        )
    # By default CUDA numbers GPUs by speed, nvidia-smi by bus.
    return Device(override, {_VISIBLE: ",".join(gpus), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})


def parse_seeds(text: str) -> tuple[int, ...]:
    """``1,2,3``. UsageError for what is no list of different whole numbers from 0."""
    words = text.replace(",", " ").split()
    wrong = next((word for word in words if not (word.isascii() and word.isdigit())), None)
    if wrong is not None:
        raise UsageError(f"seed '{wrong}' is not a whole number of at least 0. Write e.g. 1,2,3")
    seeds = tuple(map(int, words))
    repeated = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if repeated is not None:
        raise UsageError(f"seed {repeated} is given twice")
    return seeds


def plan_launches(
    config: Config,
    runs: Path,
    order: Order = Order(),
    ray: str | None = None,
    again: Run | None = None,
    env: Mapping[str, str] | None = None,
) -> list[LaunchPlan]:
    """Plan a run for each seed of ``order``, or one with the seed of the config.

    Nothing is written. ``env`` is the environment of the trainer (default: this process's).
    UsageError for an invalid or taken name, and if the runs could never start.
    """
    queued = ticket(config, runs, after=order.after, turn=order.takes_turn, env=env)
    seeded = [
        config.with_overrides([f"{key}={seed}" for key in config.kind.seed_keys])
        for seed in order.seeds
    ]
    if len(seeded) < 2:
        chosen = seeded[0] if seeded else config
        return [plan_launch(chosen, runs, order.name, queued, ray, again, order.variables)]
    stem = choose_directory(runs, order.name, config.name).name
    return [
        plan_launch(one, runs, f"{stem}-s{seed}", queued, ray, again, order.variables, stem)
        for one, seed in zip(seeded, order.seeds, strict=True)
    ]


def launch_all(plans: Sequence[LaunchPlan]) -> list[Run]:
    """Launch the plans in their order. UsageError as for ``launch``; it names what was launched."""
    started: list[Run] = []
    for planned in plans:
        try:
            started.append(launch(planned))
        except UsageError as error:
            if not started:
                raise
            names = ", ".join(run.id for run in started)
            raise UsageError(with_advice(error, f"Launched before: {names}")) from error
    return started


def plan_launch(
    config: Config,
    runs: Path,
    name: str | None = None,
    ticket: Ticket | None = None,
    ray: str | None = None,
    again: Run | None = None,
    variables: Mapping[str, str] | None = None,
    group: str | None = None,
) -> LaunchPlan:
    """Plan a run of ``config``; ``again`` is the run whose config it is. Nothing is written.

    ``variables`` precede those of ``again``.

    A relaunched run and a run of a ``group`` always get their own folder; another one if the folder
    of its config belongs to an active run or to a run of another configuration. UsageError for an
    invalid or taken name.
    """
    directory = choose_directory(runs, name, config.name)
    if again is None:
        reason = folder_objection(config, runs) or ("each seed has its own" if group else None)
        parent, drift, line = None, [], None
    else:
        reason, parent = f"those of run '{again.id}' stay", Parent(again.id, "relaunch")
        variables = {**again.read_manifest().variables, **(variables or {})}
        drift = find_drift(again, config)
        line = describe_drift(f"run '{again.id}'", drift)
    note = ""
    if reason is not None:
        folder = Path(checkpoint_dir(config)).parent / directory.name
        config = config.with_overrides([f"{config.kind.checkpoint_key}={folder}"])
        note = f"checkpoints go to {folder}: {reason}"
    return LaunchPlan(
        directory,
        config,
        ticket=ticket,
        ray=ray,
        parent=parent,
        variables=variables or {},
        warnings=(line,) if line else (),
        drift=tuple(drift),
        group=group,
        folder_note=note,
    )
