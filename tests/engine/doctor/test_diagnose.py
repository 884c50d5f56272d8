"""Text and numbers of one log become one list of findings, root first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.doctor.diagnose import diagnose_file
from engine.doctor.merge import grade_by_records, merge_findings
from engine.run.finding import Evidence, Finding, Severity


def finding(name: str, severity: Severity = Severity.ERROR, confidence: float = 0.9) -> Finding:
    return Finding(name, severity, "title", "cause", confidence=confidence)


def ids(found: list[Finding]) -> list[str]:
    return [one.id for one in found]


def test_a_flat_reward_is_folded_below_the_judge_that_the_console_names() -> None:
    flat = replace(finding("reward_zero_or_flat.zero"), onset_step=2)
    [one] = merge_findings([replace(finding("judge_parse_failure"), onset_step=1)], [flat])
    assert ids(list(one.followed_by)) == ["reward_zero_or_flat.zero"]


def test_what_came_before_is_no_consequence() -> None:
    flat = replace(finding("reward_zero_or_flat.zero"), onset_step=2)
    late = replace(finding("judge_parse_failure"), onset_step=90)
    assert ids(merge_findings([late], [flat])) == [
        "judge_parse_failure",
        "reward_zero_or_flat.zero",
    ]


def test_what_ended_the_run_stands_before_what_its_numbers_show() -> None:
    assert ids(merge_findings([finding("port_in_use")], [finding("loss_nan")])) == [
        "port_in_use",
        "loss_nan",
    ]


def test_a_guess_stands_behind_an_alert_of_the_numbers() -> None:
    guess = finding("training_setup_error", Severity.WARNING, 0.2)
    assert ids(merge_findings([guess], [finding("loss_nan")])) == [
        "loss_nan",
        "training_setup_error",
    ]


def test_a_guess_stands_before_what_is_only_worth_knowing() -> None:
    guess = finding("training_setup_error", Severity.WARNING, 0.2)
    assert (
        ids(merge_findings([guess], [finding("slow_step", Severity.INFO)]))[0]
        == "training_setup_error"
    )


def test_alerts_stand_before_what_is_only_worth_knowing() -> None:
    got_over = finding("port_in_use", Severity.INFO)
    assert ids(merge_findings([got_over], [finding("loss_nan")])) == ["loss_nan", "port_in_use"]


def test_a_graver_cause_in_the_metrics_comes_before_what_the_console_shows_of_it() -> None:
    rate = finding("kl_or_grad_blowup.rate", Severity.CRITICAL)
    [one] = merge_findings([finding("loss_nan.updates_skipped", Severity.ERROR)], [rate])
    assert (one.id, ids([*one.followed_by])) == (rate.id, ["loss_nan.updates_skipped"])


def test_a_root_is_as_bad_as_what_is_told_below_it() -> None:
    [one] = merge_findings([finding("loss_nan.text", Severity.INFO)], [finding("loss_nan.series")])
    assert one.severity is Severity.ERROR


def test_the_same_trouble_is_told_once() -> None:
    [one] = merge_findings([finding("loss_nan.text")], [finding("loss_nan.series")])
    assert ids(list(one.followed_by)) == ["loss_nan.series"]


def ended_in(name: str, said: str) -> Finding:
    return Finding(name, Severity.CRITICAL, "title", "cause", (Evidence(said),), confidence=0.9)


NO_REWARD = ended_in("reward_function_error", "NoRewardError: other: KeyError: 'x' (rw.py:3)")


def recorded(severity: Severity) -> Finding:
    seen = (Evidence("9 of 64 rollouts", path="runs/a/attempt_1/reward.jsonl"),)
    return Finding("reward_function_error", severity, "title", "cause", seen, confidence=0.9)


def test_a_rollout_without_a_reward_is_a_warning_where_the_records_show_no_more() -> None:
    [one] = grade_by_records([NO_REWARD], [])
    assert one.severity is Severity.WARNING


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.ERROR, Severity.CRITICAL])
def test_rollouts_without_a_reward_are_as_grave_as_the_records_say(severity: Severity) -> None:
    numbers = [recorded(severity)]
    [one] = merge_findings(grade_by_records([NO_REWARD], numbers), numbers)
    assert one.severity is severity


def test_what_the_console_alone_knows_keeps_its_severity() -> None:
    assert grade_by_records([CTRL_C], []) == [CTRL_C]


CTRL_C = ended_in("job_cancelled_or_interrupted.keyboard", "KeyboardInterrupt")


def test_who_interrupts_an_unhealthy_run_has_seen_that_it_is_unhealthy() -> None:
    [one] = merge_findings([CTRL_C], [finding("reward_zero_or_flat")])
    assert (one.id, ids(list(one.followed_by))) == ("reward_zero_or_flat", [CTRL_C.id])


def test_what_made_an_interrupted_run_unhealthy_stands_before_its_numbers() -> None:
    [one] = merge_findings([CTRL_C, finding("judge_auth")], [finding("reward_zero_or_flat")])
    assert (one.id, ids(list(one.followed_by))) == (
        "judge_auth",
        ["reward_zero_or_flat", CTRL_C.id],
    )


def test_an_interrupt_of_a_run_with_a_mere_warning_stands_first() -> None:
    assert merge_findings([CTRL_C], [finding("slow_step", Severity.WARNING)])[0] == CTRL_C


def test_a_scheduler_knows_nothing_of_the_numbers() -> None:
    limit = ended_in("job_cancelled_or_interrupted.cancelled", "CANCELLED DUE TO TIME LIMIT")
    assert merge_findings([limit], [finding("loss_nan")])[0] == limit


def test_a_run_that_was_lost_long_before_its_time_limit_is_told_so_first() -> None:
    limit = ended_in("job_cancelled_or_interrupted.cancelled", "CANCELLED DUE TO TIME LIMIT")
    assert ids(merge_findings([limit], [finding("loss_nan", Severity.CRITICAL)])) == [
        "loss_nan",
        limit.id,
    ]


def test_numbers_are_folded_below_the_trouble_that_they_belong_to() -> None:
    memory, judge = finding("cuda_oom_training.oom"), finding("judge_auth")
    findings = merge_findings([memory, judge], [finding("reward_zero_or_flat.zero")])
    assert ids(findings) == [memory.id, judge.id]
    assert ids(list(findings[1].followed_by)) == ["reward_zero_or_flat.zero"]


def test_a_draw_from_probabilities_of_nan_follows_from_a_loss_of_nan() -> None:
    draw = ended_in("cuda_device_assert", "RuntimeError: probabilities hold `inf` or `nan`")
    [one] = merge_findings([draw], [finding("loss_nan")])
    assert (one.id, ids(list(one.followed_by))) == ("loss_nan", ["cuda_device_assert"])
    assert merge_findings([draw], [finding("reward_zero_or_flat")])[0] == draw


def test_a_log_that_grows_flat_is_found_by_its_numbers(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    line = "{{'loss': 0.0, 'grad_norm': 0.0, 'reward': 0.0, 'reward_std': 0.0, 'epoch': {}}}\n"
    log.write_text("".join(line.format(n / 10) for n in range(12)))
    assert diagnose_file(log)[0].category == "reward_zero_or_flat"


@pytest.mark.parametrize("content", [b"", b"\x00" * 5000, b"\xff\xfe", b"{" * 3000, b"\r" * 3000])
def test_odd_files_are_read_without_a_finding(tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "odd.log"
    log.write_bytes(content)
    assert diagnose_file(log) == []


def test_a_device_is_refused() -> None:
    with pytest.raises(UsageError, match="not a regular file"):
        diagnose_file(Path("/dev/null"))
