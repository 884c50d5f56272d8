"""Every rule is shown to work by its own examples; a rule that could not is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.doctor.text.line import read_line
from engine.doctor.text.matching import book, bound
from engine.doctor.text.reader import LogReader
from engine.doctor.text.rules import Role, Rule, load_rules
from engine.errors import UsageError

RULES = load_rules()

_METRICS = """
actor/entropy actor/grad_norm actor/kl_loss actor/lr actor/pg_clipfrac actor/pg_loss actor/ppo_kl
critic/advantages/mean critic/returns/max critic/rewards/mean critic/score/mean critic/vf_loss
global_seqlen/balanced_max perf/max_memory_allocated_gb perf/mfu/actor perf/throughput
perf/time_per_step prompt_length/clip_ratio prompt_length/mean response_length/clip_ratio
response_length/mean response/aborted_ratio rollout_corr/kl timing_per_token_ms/update_actor
timing_s/gen timing_s/generate_sequences timing_s/save_checkpoint timing_s/update_weights
training/epoch training/global_step train/loss val-core/tiny/acc/mean@1 val/reward
completions/clipped_ratio frac_reward_zero_std learning_rate mean_token_accuracy num_tokens
reward_std rewards/margins sampling/importance_sampling_ratio/mean eval_runtime
"""

GOOD = """
rules:
  - id: host_oom
    title: memory
    cause: too little of it
    patterns: ['quota of memory reached']
    examples: ['quota of memory reached']
"""


def matches(rule: Rule, text: str) -> bool:
    said = read_line(text.encode()).text
    return any(rule.search(place, said) for place in range(len(rule.patterns)))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_matches_its_examples(rule: Rule) -> None:
    assert [text for text in rule.examples if not matches(rule, text)] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_does_not_match_its_counterexamples(rule: Rule) -> None:
    assert [text for text in rule.counterexamples if matches(rule, text)] == []


@pytest.mark.parametrize(
    "rule",
    [
        rule
        for rule in RULES
        if rule.above is None and rule.role is not Role.NOISE and rule.times < 2
    ],
    ids=lambda rule: rule.id,
)
def test_an_example_alone_in_a_log_is_found_as_its_rule(rule: Rule) -> None:
    for text in rule.examples:
        reader = LogReader()
        reader.feed(text.encode() + b"\n")
        assert [event.rule.id for event in reader.events.kept if event.rule] == [rule.id], text


def test_no_text_that_is_looked_for_stands_in_a_line_of_metrics() -> None:
    """Else every such line of a log of gigabytes is read on its own, which takes twice as long."""
    names = " - ".join(f"{name}:0.5" for name in _METRICS.split()).encode()
    assert [needle for needle in book().needles if needle in names] == []


def test_every_id_is_used_once() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))


def test_every_rule_says_where_its_messages_come_from() -> None:
    assert [rule.id for rule in RULES if not rule.source] == []


def test_every_rule_that_explains_offers_a_remedy() -> None:
    telling = [rule for rule in RULES if rule.role is Role.CAUSE]
    assert [rule.id for rule in telling if not rule.remedies] == []


def test_a_needle_leads_to_every_pattern() -> None:
    book = bound(RULES)
    reached = {(rule.id, place) for users in (*book.users, book.last) for rule, place in users}
    assert reached == {(rule.id, place) for rule in RULES for place in range(len(rule.patterns))}


def test_a_rule_without_a_text_to_look_for_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path, GOOD.replace("quota of memory reached", r"\\d+ \\w+", 1), "no rare text")


def test_a_rule_that_would_be_looked_for_in_every_line_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path, GOOD.replace("quota of memory reached", "training", 1), "no rare text")


def test_a_misspelt_key_is_named_with_the_nearest_right_one(tmp_path: Path) -> None:
    refuse(tmp_path, GOOD.replace("title:", "titel:"), "did you mean 'title'")


def test_a_rule_without_an_example_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path, GOOD.replace("examples:", "counterexamples:"), "needs 'examples'")


def test_an_unknown_role_is_refused_with_the_rule_that_has_it(tmp_path: Path) -> None:
    refuse(tmp_path, GOOD + "    role: villain\n", "rule 'host_oom'")


def test_a_broken_file_is_refused_by_its_name(tmp_path: Path) -> None:
    refuse(tmp_path, "rules: [", "broken.yaml")


def refuse(folder: Path, text: str, words: str) -> None:
    (folder / "broken.yaml").write_text(text)
    with pytest.raises(UsageError, match=words):
        load_rules(folder)


def test_a_good_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(GOOD)
    assert [rule.id for rule in load_rules(tmp_path)] == ["host_oom"]
