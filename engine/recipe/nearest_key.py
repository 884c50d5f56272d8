"""The key that a person meant by one that does not exist. It is only suggested, never taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.base.errors import nearest

# What other trainers call it, and what verl or our SFT sections do.
_OTHER_NAMES = {
    "batch_size": ("train_batch_size", "per_device_train_batch_size"),
    "epochs": ("total_epochs", "num_train_epochs"),
    "gradient_checkpointing": ("enable_gradient_checkpointing",),
    "learning_rate": ("lr",),
    "lora_r": ("lora_rank", "r"),
    "lr": ("learning_rate",),
    "max_grad_norm": ("clip_grad",),
    "max_steps": ("total_training_steps",),
    "model": ("model.path",),
    "model_name_or_path": ("model.path",),
    "num_generations": ("rollout.n",),
    "num_train_epochs": ("total_epochs",),
    "output_dir": ("default_local_dir",),
    "beta": ("kl_loss_coef",),
    "seed": ("grubrics.seed",),
    "steps": ("total_training_steps", "max_steps"),
    "warmup_ratio": ("lr_warmup_steps_ratio",),
}
_FIRST = ("actor_rollout_ref.actor.", "actor_rollout_ref.", "data.", "trainer.", "training.")
"""Sections by how often a person means them; a critic or a reward model is there in few runs."""


def nearest_key(key: str, known: Iterable[str]) -> str | None:
    """A key of which ``key`` is the end, else one of its section, else one spelled alike."""
    names = sorted((name for name in known if not name.endswith("._target_")), key=_rank)
    section, _, last = key.rpartition(".")
    endings = (key, *_OTHER_NAMES.get(key, ()))
    ending = next((name for end in endings for name in names if name.endswith(f".{end}")), None)
    if ending is not None:
        return ending
    siblings = [name for name in names if name.rpartition(".")[0] == section]
    renamed = {f"{section}.{other}" for other in _OTHER_NAMES.get(last, ())}
    return (
        next((name for name in siblings if name in renamed), None)
        or nearest(key, siblings)
        or _by_end(key, names)
        or nearest(key, [name for name in names if name.rpartition(".")[2] == last])
        or nearest(key, names)
    )


def _by_end(key: str, names: Sequence[str]) -> str | None:
    """By the last words of each name, as many as ``key`` has."""
    words = key.count(".") + 1
    ends: dict[str, str] = {}
    for name in names:
        ends.setdefault(".".join(name.split(".")[-words:]), name)
    close = nearest(key, ends)
    return ends[close] if close else None


def _rank(name: str) -> int:
    return next((rank for rank, first in enumerate(_FIRST) if name.startswith(first)), len(_FIRST))
