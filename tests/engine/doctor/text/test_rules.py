"""Every rule is shown to work by its own examples; a rule that could not is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.doctor.text.line import read_line
from engine.doctor.text.matching import index_rules, rule_index
from engine.doctor.text.reader import LogReader
from engine.doctor.text.rules import Role, Rule, load_rules
from tests.engine.doctor.text.reading import STEPS, alerts, read

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
    result = read_line(text.encode()).text
    return any(rule.search(place, result) for place in range(len(rule.patterns)))


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
        if not rule.needs_context and rule.role is not Role.NOISE and rule.times < 2
    ],
    ids=lambda rule: rule.id,
)
def test_an_example_alone_in_a_log_is_found_as_its_rule(rule: Rule) -> None:
    for text in rule.examples:
        reader = LogReader()
        reader.feed(text.encode() + b"\n")
        assert [event.rule.id for event in reader.events.recorded if event.rule] == [rule.id], text


def test_no_text_that_is_looked_for_stands_in_a_line_of_metrics() -> None:
    """Else every such line of a log of gigabytes is read on its own, which takes twice as long."""
    names = " - ".join(f"{name}:0.5" for name in _METRICS.split()).encode()
    assert [needle for needle in rule_index().needles if needle in names] == []


def test_every_id_is_used_once() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))


def test_a_file_is_named_after_the_class_of_its_rules() -> None:
    assert [rule.id for rule in RULES if rule.file != f"{rule.category}.yaml"] == []


def test_every_rule_says_where_its_messages_come_from() -> None:
    assert [rule.id for rule in RULES if not rule.source] == []


def test_every_rule_that_explains_offers_a_fix() -> None:
    telling = [rule for rule in RULES if rule.role is Role.CAUSE]
    assert [rule.id for rule in telling if not rule.fixes] == []


def test_a_needle_leads_to_every_pattern() -> None:
    index = index_rules(RULES)
    reached = {(rule.id, place) for users in (*index.users, index.last) for rule, place in users}
    assert reached == {(rule.id, place) for rule in RULES for place in range(len(rule.patterns))}


def test_a_rule_without_a_text_to_look_for_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path, GOOD.replace("quota of memory reached", r"\\d+ \\w+", 1), "no rare text")


def test_a_rule_that_would_be_looked_for_in_every_line_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path, GOOD.replace("quota of memory reached", "training", 1), "no rare text")


def test_a_misspelt_key_is_named_with_the_nearest_right_one(tmp_path: Path) -> None:
    refuse(tmp_path, GOOD.replace("title:", "titel:"), "did you mean 'title'")


def test_a_placeholder_that_no_pattern_fills_is_refused(tmp_path: Path) -> None:
    broken = re.sub("cause: .*", "cause: Of {lnk|the link}.", GOOD)
    refuse(tmp_path, broken, "rule 'host_oom.*placeholder 'lnk' does not exist")


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


def fixes(text: str) -> str:
    (result,) = read(text)
    return "\n".join(fix.title for fix in result.fixes)


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: No available memory for the cache blocks.\n",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n",
        "ValueError: 4.00 GiB KV cache is needed, which is larger than the available KV cache"
        " memory (1.00 GiB). Try increasing `gpu_memory_utilization`\n",
    ],
)
def test_an_engine_without_room_for_its_cache_is_given_a_larger_share(text: str) -> None:
    assert "Raise the engine's memory share" in fixes(text)
    assert "Lower the engine's memory share" not in fixes(text)


def test_an_engine_that_asks_for_more_than_is_free_is_given_a_smaller_share() -> None:
    text = (
        "ValueError: Free memory on device (9/80 GiB) on startup is less than desired GPU memory\n"
    )
    assert "Lower the engine's memory share" in fixes(text)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
    ],
)
def test_a_card_that_failed_is_replaced_and_no_token_ids_are_checked(text: str) -> None:
    assert "Replace the GPU" in fixes(text)
    assert "token ids" not in fixes(text)


def test_a_fault_that_the_program_caused_is_none_of_the_card() -> None:
    text = "NVRM: Xid (PCI:0000:48:00): 31, pid=1, MMU Fault\n"
    assert [finding.id for finding in read(text)] == ["cuda_device_assert"]


def test_what_cannot_be_sampled_from_is_traced_to_the_first_nan() -> None:
    text = "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0\n"
    assert "first NaN" in fixes(text)


LATER = STEPS.replace("[step ", "[step 1")
UNANSWERED = "WARNING judge request timed out after 9.0s, giving reward 0.0\n"
UNREAD = "WARNING could not parse grader reply, using score 0\n"
REFUSED = "WARNING judge: HTTP 401 from https://judge.example/v1, giving 0.0\n"
UNMARKED = (
    "/v/collate.py:9: UserWarning: Could not find response key `[A]` in the following instance: x."
    " This instance will be ignored in loss calculation.\n"
)


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (UNANSWERED, "judge_timeout_or_connection.scored"),
        (UNREAD, "judge_parse_failure.scored"),
        (REFUSED, "judge_auth"),
        (UNMARKED, "tokenizer_or_chat_template.masked"),
    ],
)
def test_a_warning_that_spoils_what_is_learned_is_believed_when_said_often(
    text: str, id: str
) -> None:
    assert alerts(text * 20, STEPS) == [id]


@pytest.mark.parametrize("text", [UNANSWERED, UNREAD, UNMARKED])
def test_the_same_warning_said_a_few_times_is_no_alert(text: str) -> None:
    assert alerts(text * 3, STEPS) == []
    assert alerts(STEPS, text * 2) == []


@pytest.mark.parametrize(
    "text",
    [
        "judge: score=0.2 reason='Says that 401 Unauthorized means an invalid API key.'\n",
        '{"rationale": "Names CUDA out of memory, as it should.", "score": 1}\n',
        "score: 0, explanation: 'It violates our usage policies, says the answer.'\n",
    ],
)
def test_what_a_judge_says_of_an_answer_is_no_trouble_of_the_judge(text: str) -> None:
    assert alerts(text * 5, STEPS) == []


def test_a_score_whose_reason_is_that_the_judge_failed_is_one() -> None:
    text = "judge: score=0.0 reason='Error code: 401 - invalid_api_key'\n"
    assert alerts(text * 5, STEPS) == ["judge_auth"]


@pytest.mark.parametrize("after", ["", "{'train_runtime': 9.1, 'train_loss': 3.2}\nsaved\n" * 9])
def test_a_loss_watchdog_that_stops_training_is_named(after: str) -> None:
    text = "[WARNING] The loss is too high, stopping training (watchdog)\n"
    assert alerts(STEPS, text, after) == ["kl_or_grad_blowup.loss"]


def test_a_disk_that_fills_under_the_logs_is_told_though_training_goes_on() -> None:
    text = "OSError: [Errno 28] No space left on device: '/d/wandb/run-1/x.wandb'\n"
    assert alerts(STEPS, text, LATER) == ["checkpoint_disk_full.logging"]


def test_a_full_disk_that_was_got_over_is_worth_knowing() -> None:
    text = "OSError: [Errno 28] No space left on device: '/d/out'\n"
    assert alerts(STEPS, text, LATER) == []
    assert [finding.id for finding in read(STEPS, text, LATER)] == ["checkpoint_disk_full"]


@pytest.mark.parametrize(
    "text",
    [
        "the instance is being terminated normally\n",
        "ERROR: fees cannot be cancelled by the user agreement\n",
    ],
)
def test_an_end_as_planned_and_other_meanings_of_its_words_are_no_interruption(text: str) -> None:
    assert alerts(STEPS, text) == []


FINE = {
    "judge_auth.not_found": "openai.NotFoundError: Error code: 404 - 'DeploymentNotFound'",
    "model_not_found_or_hub.token": "ERROR: HF_TOKEN environment variable is not set",
    "wandb_auth": "ERROR: WANDB_API_KEY environment variable is not set",
    "wandb_auth.project": "wandb: ERROR W&B API: project not found (<Response [404]>)",
    "permission_or_fd_limit.wandb_dir": (
        "wandb: WARNING Path /d/wandb/ wasn't writable, using system temp directory."
    ),
    "training_setup_error.deterministic": (
        "RuntimeError: scatter_add_cuda_kernel does not have a deterministic implementation, but "
        "you set 'torch.use_deterministic_algorithms(True)'. You can use 'warn_only=True'"
    ),
    "host_oom.dataloader_killed": "RuntimeError: DataLoader worker (pid 12) is killed by signal: "
    "Killed.",
    "python_env_import.missing": "ModuleNotFoundError: No module named 'sklearn'",
}


@pytest.mark.parametrize("id", FINE)
def test_a_message_is_told_by_its_finer_name(id: str) -> None:
    assert read(FINE[id])[0].id == id


@pytest.mark.row("G30")
def test_the_key_for_fewer_loader_workers_is_proposed() -> None:
    (change,) = read(FINE["host_oom.dataloader_killed"])[0].fixes[0].changes
    assert (change.key, change.after) == ("data.dataloader_num_workers", 1)


@pytest.mark.row("A19")
def test_the_package_to_install_has_pips_name() -> None:
    one = read(FINE["python_env_import.missing"])[0]
    assert one.title == "The package scikit-learn is not installed"
    assert one.fixes[0].changes[0].after == "python -m pip install scikit-learn"


@pytest.mark.parametrize(
    "error",
    [
        "BrokenPipeError: [Errno 32] Broken pipe",
        "RuntimeError: unable to perform operation on <UnixTransport closed=True>; closed",
    ],
)
def test_wandb_that_is_taken_down_with_the_program_only_warns(error: str) -> None:
    log = f"""step:199 - critic/score/mean:0.5
step:200 - critic/score/mean:0.5
Traceback (most recent call last):
  File "/x/verl/utils/tracking.py", line 120, in __del__
    self.logger["wandb"].finish(exit_code=0)
  File "/x/wandb/sdk/lib/sock_client.py", line 9, in send
    self._sendall(data)
{error}"""
    one = read(log)[0]
    assert (one.id, one.severity) == ("wandb_teardown_or_crash.exit", "warning")


def test_a_warning_at_the_start_explains_no_crash() -> None:
    log = f"""{FINE["permission_or_fd_limit.wandb_dir"]}
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
ValueError: not enough values to unpack"""
    assert read(log)[0].id != "permission_or_fd_limit.wandb_dir"
