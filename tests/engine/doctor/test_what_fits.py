"""Fixes and causes fit what the program was doing, and who it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.doctor.diagnose import diagnose_file
from engine.run import fixes
from engine.run.finding import Finding
from engine.run.finding_kind import Case
from engine.run.rule_context import RuleContext

FRAME = '  File "/opt/lib/python3.11/site-packages/{}", line 9, in {}\n    x = y\n'
TRACEBACK = "Traceback (most recent call last):\n"
SCRIPT = '  File "/home/u/train.py", line 3, in <module>\n    x = y\n'
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
UNREWARDED = {"loss": 0.0, "grad_norm": 0.0, "reward": None, "rewards/right/mean": None}
DONE = "{'loss': 0.5, 'grad_norm': 0.5, 'epoch': 1.0}\n" * 3 + "{'train_runtime': 9.0}\n"
OWN = '  File "/home/u/train.py", line 3, in close\n    remove(x)\nKeyError: 3\n'


def told(tmp_path: Path, text: str) -> list[Finding]:
    path = tmp_path / "night.log"
    path.write_text(text)
    return diagnose_file(path)


def titles(finding: Finding) -> str:
    return " ".join(fix.title for fix in finding.fixes)


@pytest.mark.parametrize(
    "text",
    [
        "trl/trainer/grpo_trainer.py\n" + f"{UNREWARDED}\n" * 9,
        "/x/trl/trainer/grpo_trainer.py:9: UserWarning: All reward functions returned None for "
        "the following kwargs: {'prompt': 'What is 2 + 2?'}\n",
    ],
)
def test_rewards_that_are_all_none_are_the_first_finding(tmp_path: Path, text: str) -> None:
    first = told(tmp_path, text)[0]
    assert (first.id, first.severity.is_alert) == ("reward_function_error.none", True)
    assert first.fixes[0].title.endswith(": reward_funcs")


def test_one_reward_among_many_rows_is_enough(tmp_path: Path) -> None:
    text = f"{UNREWARDED}\n" * 9 + "{'loss': 0.1, 'reward': 0.5, 'rewards/right/mean': 0.5}\n"
    assert "reward_function_error.none" not in [one.id for one in told(tmp_path, text)]


def test_a_transfer_of_weights_is_not_helped_by_shorter_responses(tmp_path: Path) -> None:
    frames = FRAME.format("verl/trainer/ppo/ray_trainer.py", "fit")
    frames += FRAME.format("verl/workers/engine_workers.py", "update_weights")
    [one] = told(tmp_path, TRACEBACK + frames + MEMORY)
    keys = [change.key for fix in one.fixes for change in fix.changes]
    assert any("update_weights_bucket" in key for key in keys) and "gpu_memory" in titles(one)
    assert "horten responses" not in titles(one) and "max_model_len" not in titles(one)


def test_a_save_is_not_helped_by_shorter_responses(tmp_path: Path) -> None:
    frames = FRAME.format("transformers/trainer.py", "_save_checkpoint")
    [one] = told(tmp_path, TRACEBACK + frames + MEMORY)
    assert "SHARDED_STATE_DICT" in titles(one) and "horten responses" not in titles(one)


@pytest.mark.parametrize(
    "header", ["Error in atexit._run_exitfuncs:\n", "Exception in thread Thread-5 (_close):\n"]
)
def test_what_is_raised_aside_after_the_training_is_no_cause(tmp_path: Path, header: str) -> None:
    assert told(tmp_path, DONE + header + TRACEBACK + OWN) == []
    assert told(tmp_path, DONE + TRACEBACK + OWN) != []


def test_a_thread_that_fails_while_training_runs_is_one(tmp_path: Path) -> None:
    assert told(tmp_path, "Exception in thread Thread-5 (_close):\n" + TRACEBACK + OWN) != []


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("ValueError: Reward function 'form' returned 1 value for 8 completions", "form returns 1"),
        ("RuntimeError: reward function returned 1 value for 8 completions", "returns 1 value for"),
    ],
)
def test_a_wrong_number_of_rewards_is_counted(tmp_path: Path, line: str, title: str) -> None:
    first = told(tmp_path, f"{line}\n")[0]
    assert first.id == "reward_function_error.count" and title in first.title


def test_what_could_not_be_retried_is_not_said_to_continue(tmp_path: Path) -> None:
    text = "wandb: Network error (ConnectTimeout), entering retry loop.\n"
    text += "wandb.errors.CommError: Run initialization has timed out after 90.0 sec.\n"
    first = told(tmp_path, text)[0]
    assert first.id == "wandb_network"
    assert not any("ontinues" in one.cause for one in (first, *first.followed_by))


def test_an_overflowing_context_is_not_made_longer(tmp_path: Path) -> None:
    step = "step:{} - critic/rewards/mean:0.1 - response_length/clip_ratio:0.98\n"
    steps = "".join(step.format(number) for number in range(1, 31))
    assert "Allow longer responses" in titles(told(tmp_path, steps)[0])
    error = "ValueError: The prompt is longer than the maximum model length of 4096.\n"
    assert "longer responses" not in " ".join(map(titles, told(tmp_path, error * 3 + steps)))


def test_deepspeed_chat_has_a_key_of_its_own_for_clipping(tmp_path: Path) -> None:
    line = "Epoch: 0 | Step: {} | PPO Epoch: 1 | Actor Loss: {} | Critic Loss: 0.1\n"
    losses = [0.1] * 15 + [3.0**power for power in range(20)]
    [one] = told(tmp_path, "".join(line.format(*pair) for pair in enumerate(losses)))[:1]
    assert "gradient_clipping" in titles(one)


@pytest.mark.parametrize(
    ("model", "has_sft"), [("Qwen/Qwen3-4B-Base", True), ("a/b-Instruct", False)]
)
def test_an_instruct_model_needs_no_sft_checkpoint(model: str, has_sft: bool) -> None:
    case = Case(RuleContext({"actor_rollout_ref.model.path": model}))
    assert ("SFT checkpoint" in fixes.easier_prompts(case).title) is has_sft


def test_a_checkpoint_to_resume_from_exists_and_is_complete(tmp_path: Path) -> None:
    for step, file in ((10, "trainer_state.json"), (20, "optimizer.pt")):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / file).write_text("{}")
    steps = "".join(
        f"{{'loss': {0.5 if step < 26 else 9e9}, 'grad_norm': 0.5, 'step': {step}}}\n"
        for step in range(1, 41)
    )
    advice = [fix.title for one in told(tmp_path, steps) for fix in one.fixes]
    assert "Resume from the last checkpoint before step 26, that of step 10" in advice


@pytest.mark.parametrize(
    ("line", "id", "argument"),
    [
        ("ValueError: Unknown loss type: grpoo", "config_error.loss_type", "loss_type"),
        (
            "ValueError: Number of reward weights (1) must match number of reward functions (2)",
            "config_error.reward_weights",
            "reward_weights",
        ),
    ],
)
def test_trl_is_told_its_own_argument(tmp_path: Path, line: str, id: str, argument: str) -> None:
    [one] = told(tmp_path, TRACEBACK + FRAME.format("trl/trainer/grpo_trainer.py", "f") + line)
    assert one.id == id and one.fixes[0].title.endswith(f": {argument}")


def test_the_value_that_python_refuses_is_no_message(tmp_path: Path) -> None:
    line = "ValueError: invalid literal for int() with base 10: '7, CUDA out of memory'"
    [one] = told(tmp_path, TRACEBACK + SCRIPT + line)
    assert "memory" not in one.id


@pytest.mark.parametrize(
    ("argument", "advice"),
    [
        ("max_prompt_length", "See the arguments"),
        ("num_generation", "Rename the argument num_generation to num_generations"),
    ],
)
def test_an_argument_is_never_renamed_to_itself(tmp_path: Path, argument: str, advice: str) -> None:
    line = f"TypeError: GRPOConfig.__init__() got an unexpected keyword argument '{argument}'"
    [one] = told(tmp_path, TRACEBACK + SCRIPT + line)
    assert one.fixes[0].title.startswith(advice)


def test_nan_in_the_log_explains_a_sampling_that_fails_by_nan(tmp_path: Path) -> None:
    steps = "".join(
        f"{{'loss': 0.1, 'grad_norm': '{norm}', 'learning_rate': 10.0, 'reward': 0.2}}\n"
        for norm in (0.5, "nan")
    )
    failure = TRACEBACK + FRAME.format("transformers/generation/utils.py", "_sample")
    failure += "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0"
    [one] = told(tmp_path, steps + failure)
    assert one.id.startswith(("kl_or_grad_blowup", "loss_nan"))
    assert "cuda_device_assert.sampling" in {each.id for each in one.followed_by}
