"""Root first, and nothing is lost on the way."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from engine.doctor.metrics.root_cause import fold_consequences
from engine.run.finding import Finding, Severity
from tests.engine.doctor.metrics.curves import everything

IDS = [
    "reward_function_error.nan",
    "loss_nan",
    "kl_or_grad_blowup.kl",
    "kl_or_grad_blowup.gradient",
    "kl_or_grad_blowup.rate",
    "collapse_entropy_or_length.length",
    "collapse_entropy_or_length.entropy",
    "collapse_entropy_or_length.reward",
    "reward_zero_or_flat.equal",
    "reward_zero_or_flat.zero",
    "judge_timeout_or_connection.slower",
    "judge_timeout_or_connection.samples_failed",
    "slow_step.judge",
    "overfitting",
]


def finding(id: str, onset: int | None, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(id, severity, "title", "cause", onset_step=onset)


findings = st.lists(
    st.builds(
        finding,
        st.sampled_from(IDS),
        st.none() | st.integers(0, 40),
        st.sampled_from(list(Severity)),
    ),
    max_size=12,
    unique_by=lambda one: one.id,
)


@given(findings)
def test_every_finding_is_there_once_and_the_worst_comes_first(given: list[Finding]) -> None:
    ordered = fold_consequences(given)
    assert Counter(one.id for one in everything(ordered)) == Counter(one.id for one in given)
    ranks = [one.severity.rank for one in ordered]
    assert ranks == sorted(ranks)


@given(findings)
def test_the_order_they_were_found_in_does_not_matter(given: list[Finding]) -> None:
    assert fold_consequences(given) == fold_consequences(given[::-1])


@given(findings)
def test_a_root_is_as_bad_as_what_follows_from_it(given: list[Finding]) -> None:
    for root in fold_consequences(given):
        assert all(
            root.severity.rank <= consequence.severity.rank for consequence in root.followed_by
        )


def test_what_comes_first_is_the_cause_of_what_comes_later() -> None:
    blowup, collapse = finding(IDS[3], 10), finding(IDS[5], 12)
    assert [one.id for one in fold_consequences([collapse, blowup])] == [blowup.id]
    assert [one.id for one in fold_consequences([collapse, finding(IDS[3], 30)])] == [collapse.id]


def test_a_length_limit_hit_from_the_start_hides_no_other_fault() -> None:
    limit = finding("collapse_entropy_or_length.cap_from_start", 1, Severity.WARNING)
    faults = [finding(id, 10) for id in ("loss_nan", "kl_or_grad_blowup.kl", IDS[6])]
    for fault in faults:
        assert fault.id in [one.id for one in fold_consequences([limit, fault])]
    (root,) = fold_consequences([limit, finding("reward_zero_or_flat.zero", 10)])
    assert root.id == limit.id


def test_information_neither_causes_nor_follows() -> None:
    info = finding("kl_or_grad_blowup.gradient", 1, Severity.INFO)
    assert len(fold_consequences([info, finding("loss_nan", 5)])) == 2
