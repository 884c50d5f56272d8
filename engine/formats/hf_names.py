"""Names that HF's Trainer and TRL give to quantities that have a canonical name."""

from __future__ import annotations

from collections.abc import Iterable

from engine.formats.names import clean_name, number
from engine.history import metrics
from engine.history.train_log import Metrics

_RL = {
    "loss": "actor/loss",
    "grad_norm": "actor/grad_norm",
    "learning_rate": "actor/lr",
    "entropy": "actor/entropy",
    "kl": "actor/kl_loss",
    "clip_ratio": "actor/pg_clipfrac",
    "clip_ratio/region_mean": "actor/pg_clipfrac",
}
_SFT = {
    "loss": metrics.TRAIN_LOSS,
    "grad_norm": "train/grad_norm",
    "learning_rate": "train/lr",
    "entropy": "train/entropy",
}


class HfNames:
    """Whether a run learns from rewards shows in its first lines, and then stays so."""

    def __init__(self) -> None:
        self.is_rewarded = False
        """Whether a reward has been seen."""

    def metrics(self, pairs: Iterable[tuple[str, object]]) -> Metrics:
        """Canonical names and numbers; what is no number is left out.

        W&B's callback puts ``train/`` before the names; a reading without it means the same.
        """
        known = [(name.removeprefix("train/"), value) for name, value in pairs]
        self.is_rewarded = self.is_rewarded or any(name == "reward" for name, _ in known)
        table = _RL if self.is_rewarded else _SFT
        found: Metrics = {}
        for name, value in known:
            try:
                found[table.get(name) or clean_name(name)] = number(value)
            except ValueError:
                continue
        return found
