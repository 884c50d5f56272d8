"""What verl's null defaults stand for, where a wrong value would only show after the start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class _Wanted:
    """``types`` a value may have, and the least it may be. ``name`` says both."""

    name: str
    types: tuple[type, ...]
    least: int | None = None
    null: bool = True

    def fits(self, value: Any) -> bool:
        if value is None:
            return self.null
        if type(value) not in self.types:
            return False
        return self.least is None or bool(value >= self.least)


_COUNT = _Wanted("an integer of at least 1, or null", (int,), 1)
_INTEGER = _Wanted("an integer or null", (int,))
_NUMBER = _Wanted("a number or null", (int, float))
_PATH = _Wanted("a path or null", (str,))
_MAPPING = _Wanted("a mapping or null", (dict,))

_BY_KEY: Mapping[str, _Wanted] = {
    "trainer.total_training_steps": _COUNT,
    "trainer.max_actor_ckpt_to_keep": _COUNT,
    "trainer.max_critic_ckpt_to_keep": _COUNT,
    "data.train_files": _Wanted("a file or a list of files", (str, list), null=False),
    "data.val_files": _Wanted("a file or a list of files", (str, list), null=False),
    "data.seed": _INTEGER,
    "trainer.default_local_dir": _Wanted("a folder", (str,), null=False),
    "global_profiler.steps": _Wanted("a list of steps or null", (list,)),
    "trainer.logger": _Wanted("a logger or a list of loggers", (str, list), null=False),
}

_BY_NAME = (
    (re.compile(r"(micro|gen|val)_batch_size(_per_gpu)?|max_model_len|max_num_seqs"), _COUNT),
    (re.compile(r"max_(assistant|user)_turns|num_(cpus|repeat_rollouts|workers)"), _COUNT),
    (re.compile(r"max_num_batched_tokens|(prompt|response)_length|n_gpus_per_node|nnodes"), _COUNT),
    (re.compile(r"max_samples_per_step_per_worker|\w+_parallel_size"), _COUNT),
    (re.compile(r"loss_scale_factor|dro_beta|gpu_memory_utilization"), _NUMBER),
    (re.compile(r"override_(optimizer_)?config|\w+_kwargs"), _MAPPING),
    (re.compile(r"path|\w+_(path|dir|file)"), _PATH),
)


def null_complaint(key: str, value: Any, default: Any) -> str | None:
    """What the value of a key with a null default should have been, or None when it may stand.

    A key that has another default is judged by that, but for those that verl needs.
    """
    if isinstance(value, str) and "${" in value:
        return None
    wanted = _BY_KEY.get(key)
    if wanted is None and default is None:
        name = key.rpartition(".")[2]
        wanted = next((kind for pattern, kind in _BY_NAME if pattern.fullmatch(name)), None)
    return None if wanted is None or wanted.fits(value) else wanted.name
