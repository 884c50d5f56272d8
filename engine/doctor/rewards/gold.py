"""Questions whose gold scores are all equal: they cost a judge call and can teach nothing.

Alignment with a constant is 0 whatever the rubric, while the information bonus is still paid: such
rows reward something else than what is wanted. Shape: more than a tenth of at least 40 rollouts.
Source: seed guide (a useful signal in at least 90 % of the rows); grubrics history (rewards of
0.267 on gold without variance).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.doctor.metrics.run import percent
from engine.doctor.rewards.step_counts import Tally
from engine.findings.finding import Change, Finding, Remedy, Severity

_USELESS = 0.1
_ENOUGH = 40


def findings(steps: Sequence[Tally]) -> Iterator[Finding]:
    golds = sum(tally.golds for tally in steps)
    flat = sum(tally.gold_constant for tally in steps)
    if golds < _ENOUGH or flat <= _USELESS * golds:
        return
    yield Finding(
        "data_missing_or_schema.flat_gold_share",
        Severity.WARNING,
        f"{percent(flat / golds)} of the rollouts have gold that does not differ",
        f"{flat} of {golds} rollouts belong to questions whose gold scores are all equal: no "
        "rubric can rank their answers as gold does, so only the bonus terms are learned there.",
        (),
        (
            Remedy(
                "Count the useful rows, and drop the others",
                (Change("command", "data", "python -m engine.data.analyze"),),
                "at least 90 % of the rows should have a useful signal",
            ),
        ),
        next(tally.step for tally in steps if tally.gold_constant),
        source="seed guide: signal_useful_pct below 90 %",
    )
