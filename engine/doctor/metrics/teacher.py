"""Learning from another model: a run whose loss is the distance to a teacher needs no reward.

Shape: gradients that are never 0, with a series of that name, or with rewards of exactly 0 and a KL
that falls from far above 0, where a policy's distance to its own beginning lies.
"""

from __future__ import annotations

import re

from engine.doctor.metrics.run import Run
from engine.doctor.metrics.series_stats import late
from engine.history import metrics

_TEACHER = re.compile(r"distill|teacher", re.IGNORECASE)
_KLS = ("actor/kl_loss", "actor/reverse_kl")
_FAR = 0.2


def is_distilled(run: Run) -> bool:
    """Whether it is taught by another model, so that rewards without spread waste nothing."""
    norm = run.series("actor/grad_norm")
    if not len(norm) or not norm.values.all():
        return False
    if any(_TEACHER.search(name) and len(run.named(name)) for name in run.columns.names):
        return True
    kls = (run.named(name) for name in _KLS)
    return not run.series(metrics.REWARD_MEAN).values.any() and any(
        len(kl) > 1 and kl.values[0] > max(_FAR, late(kl.values)) for kl in kls
    )
