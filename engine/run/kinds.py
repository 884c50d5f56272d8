"""The kinds of run, and everything about a kind that other folders need.

A new kind is one entry in ``KINDS``. What reads the keys of one kind's config asks ``ByKind`` for
its implementation, or compares with the kind it is written for, so a kind that it does not know
is refused or left out and never treated as another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from engine.base.errors import UsageError
from engine.run.trainer_settings import SETTINGS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of run. Fields that end in ``_key`` name config keys, or None if there is none;
    ``trainer_settings.json`` has them."""

    name: str
    """The value of ``grubrics.kind``, and the word in manifests, JSON and filters."""
    title: str
    trainer: str
    """The module that ``python -m`` starts."""
    panels: tuple[str, ...]
    """The panels of the live view, in order."""
    model_key: str
    checkpoint_key: str
    """The folder of its checkpoints."""
    gpus_key: str
    """GPUs on each node."""
    batch_key: str
    """What grows and shrinks the batch of a step."""
    steps_key: str
    """How many steps it trains."""
    seed_keys: tuple[str, ...]
    """Everything random follows from these."""
    train_files_key: str | None = None
    val_files_key: str | None = None
    checkpointing_key: str | None = None
    """Gradient checkpointing."""
    micro_batch_key: str | None = None
    """Samples on one GPU at a time."""
    save_every_key: str | None = None
    validate_every_key: str | None = None
    """Steps between validations; below 1 there are none, null of SFT is after every epoch."""
    lora_targets_key: str | None = None
    template_key: str | None = None
    """A chat template in place of the model's."""
    learning_rate_key: str | None = None
    gradient_clip_key: str | None = None
    warmup_ratio_key: str | None = None
    usual_learning_rate: float = 1e-6
    """A rate that trains, for advice."""
    highest_usual_learning_rate: float = 1e-5
    loggers_key: str | None = None
    project_key: str | None = None
    """The W&B project."""
    run_name_key: str | None = None
    """The name that a config gives to all of its runs."""
    length_key: str | None = None
    """The longest response or conversation, in tokens."""
    resume_key: str | None = None
    """The checkpoint to resume from."""
    resume_values: tuple[str, ...] = ()
    """The overrides that go with ``resume_key``."""
    has_rollouts: bool = False
    """Whether it generates rollouts and scores them, in general with a judge."""
    uses_ray: bool = False
    has_final_model: bool = False
    """Whether it ends with writing the model alone to ``final/``."""

    def __str__(self) -> str:
        return self.name

    def resume_overrides(self, checkpoint: object) -> list[str]:
        """The overrides that resume a run from ``checkpoint``."""
        if self.resume_key is None:
            raise UsageError(f"runs of kind '{self.name}' cannot be resumed from a checkpoint")
        return [*self.resume_values, f"{self.resume_key}={checkpoint}"]


def _keys(kind: str) -> dict[str, Any]:
    """The fields of a kind that name the key of a setting."""
    keys = {f"{name}_key": setting.keys.get(kind) for name, setting in SETTINGS.items()}
    return {name: key for name, key in keys.items() if name in Kind.__slots__}


GRPO = Kind(
    name="grpo",
    title="GRPO",
    trainer="engine.train.grpo",
    panels=("reward", "judge", "time", "policy", "machine", "log", "validation"),
    **_keys("grpo"),
    seed_keys=("grubrics.seed", "data.seed"),
    resume_values=(
        "trainer.resume_mode=resume_path",
        # The step before was validated by the attempt that saved it.
        "trainer.val_before_train=false",
    ),
    has_rollouts=True,
    uses_ray=True,
)

SFT = Kind(
    name="sft",
    title="SFT",
    trainer="engine.train.sft",
    panels=("loss", "optimizer", "throughput", "time", "machine", "log", "validation"),
    **_keys("sft"),
    seed_keys=("training.seed",),
    usual_learning_rate=2e-5,
    highest_usual_learning_rate=2e-5,
    has_final_model=True,
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in (GRPO, SFT)}
"""Every kind by its name."""


COMMAND = "command"
"""The ``kind`` in the manifest of a run that executes any command: it has no config, so it is none
of ``KINDS``."""

ADOPTED = "adopted"
"""What lists, JSON and filters call a ``command`` that was launched elsewhere."""

PIPELINE = "pipeline"
"""What they call a ``command`` that launches the stages of a pipeline."""


def kind_names() -> str:
    """The names of all kinds, for messages."""
    return ", ".join(KINDS)


def find_kind(name: object) -> Kind | None:
    """The kind of that name; None where the name is missing or unknown."""
    return KINDS.get(name) if isinstance(name, str) else None


def no_rollouts(kind: Kind | None) -> str:
    """Why there are no rollouts of a run of that kind; empty where there may be some."""
    return f"{kind.title} generates no rollouts" if kind and not kind.has_rollouts else ""


def read_kind(name: str | None, where: object) -> Kind:
    """The kind of that name, read in ``where``; UsageError if it is missing or unknown."""
    kind = find_kind(name)
    if kind is not None:
        return kind
    if name is None:
        raise UsageError(f"{where}: 'kind' is missing; it must be one of {kind_names()}")
    raise UsageError(
        f"{where}: unknown kind '{name}'; this version knows {kind_names()}. "
        "A newer version may have written it"
    )


class ByKind(Generic[T]):
    """What differs by kind in one place, e.g. ``ByKind("estimate", grpo=..., sft=...)``."""

    def __init__(self, what: str, **by_name: T) -> None:
        self._what, self._by_name = what, by_name

    def __contains__(self, kind: Kind) -> bool:
        return kind.name in self._by_name

    def __getitem__(self, kind: Kind) -> T:
        """UsageError for a kind that is not supported here."""
        if kind.name not in self._by_name:
            known = ", ".join(self._by_name)
            raise UsageError(f"{self._what}: kind '{kind.name}' is not supported, only {known}")
        return self._by_name[kind.name]
