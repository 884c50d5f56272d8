"""What a log says of a run's own course: begun again, come to its end, judged by somebody ill."""

from __future__ import annotations

import pytest

from tests.engine.doctor.text.reading import HEADER, STEPS, alerts, frames, ids, read

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n"
TRAIN = HEADER + frames("/w/train.py:main", "/x/torch/optim/adam.py:step")
PREEMPTED = "slurmstepd: error: *** JOB 7 ON node2 CANCELLED AT 2025-02-02T00:00:00 ***\n"
REFUSED = "openai.AuthenticationError: Error code: 401 - {'error': {'code': 'invalid_api_key'}}\n"
BUSY = "(Reward pid=4) openai.RateLimitError: Error code: 429 - rate_limit_exceeded\n"
ENGINE_DIED = "ERROR Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.\n"
RAISED_BY_JUDGE = HEADER + frames("/w/judge.py:ask", "/x/openai/_base_client.py:request") + REFUSED
MORE = "the program goes on with what it does\n" * 8


def verl(first: int, last: int) -> str:
    return "".join(f"step:{n} - actor/pg_loss:0.5 - timing_s/step:60\n" for n in range(first, last))


class TestJudge:
    """Trouble with the judge cannot break training's own code."""

    def test_a_refusal_stands_beside_what_broke_training_later(self) -> None:
        assert ids(STEPS, REFUSED, TRAIN, OOM) == ["cuda_oom_training.oom", "judge_auth"]

    def test_refusals_that_were_few_are_not_told_beside_it(self) -> None:
        assert ids(STEPS, BUSY, TRAIN, OOM) == ["cuda_oom_training.oom"]

    def test_an_exception_that_no_rule_knows_is_the_root_once_a_step_came_between(self) -> None:
        unknown = TRAIN + "OddityError: the moon is full\n"
        assert ids(STEPS, REFUSED, unknown) == ["judge_auth"]
        assert ids(STEPS, REFUSED, "[step 60] loss 1.1 | lr 2.0e-05\n", unknown) == [
            "training_setup_error.words",
            "judge_auth",
        ]

    def test_what_was_raised_while_the_refusal_was_handled_follows_from_it(self) -> None:
        during = "\nDuring handling of the above exception, another exception occurred:\n\n"
        assert ids(RAISED_BY_JUDGE, during, TRAIN, OOM) == ["judge_auth"]

    def test_what_a_reward_raises_of_a_refusal_follows_from_it(self) -> None:
        reward = HEADER + frames("/w/train.py:main", "/w/reward.py:score")
        assert ids(REFUSED, reward, "KeyError: 'choices'\n")[0] == "judge_auth"

    def test_a_refusal_that_ended_the_run_explains_who_died_of_it(self) -> None:
        died = "ray.exceptions.ActorDiedError: The actor died unexpectedly.\n"
        assert ids(RAISED_BY_JUDGE, died) == ["judge_auth"]


class TestStartedAgain:
    @pytest.mark.parametrize(
        "start",
        [
            "== requeued ==",
            "Restarting training",
            "Resuming from checkpoint out/checkpoint-20",
            "***** Running training *****",
            "+ srun --gpus 2 python train.py",
        ],
    )
    def test_what_breaks_after_a_new_start_is_the_root(self, start: str) -> None:
        assert ids(PREEMPTED, f"{start}\n", TRAIN, OOM) == ["cuda_oom_training.oom"]

    def test_what_breaks_without_a_new_start_follows_from_the_stop(self) -> None:
        assert ids(PREEMPTED, TRAIN, OOM) == ["job_cancelled_or_interrupted.cancelled"]
        assert ids(PREEMPTED, "Restarting actor 3\n", TRAIN, OOM) == [
            "job_cancelled_or_interrupted.cancelled"
        ]

    def test_a_run_that_is_stopped_again_was_stopped(self) -> None:
        assert ids(PREEMPTED, "Resuming from step 20\n", PREEMPTED) == [
            "job_cancelled_or_interrupted.cancelled"
        ]


class TestTrainedAgain:
    """What ended an attempt is got over where a later one, in the same file, has trained."""

    LAUNCH = "+ python3 -m verl.trainer.main_ppo trainer.resume_mode=disable\n"
    DIED = TRAIN + OOM

    def test_steps_below_those_of_the_first_attempt_show_that_training_went_on(self) -> None:
        assert alerts(verl(1, 51), self.DIED, self.LAUNCH, verl(1, 41)) == []

    def test_counters_of_other_layouts_show_it_as_well(self) -> None:
        bars = "".join(f"\r train: | {n}/90 [00:09<00:50, 1.2s/it]" for n in range(1, 40))
        for trained in (STEPS, bars):
            assert alerts(trained * 2, self.DIED) != []
            assert alerts(trained * 2, self.DIED, self.LAUNCH, trained[: len(trained) // 2]) == []

    def test_a_local_ray_that_starts_is_a_launch(self) -> None:
        ray = "2025-01-01 00:00:00,123 INFO worker.py:1843 -- Started a local Ray instance.\n"
        assert alerts(verl(1, 51), self.DIED, ray, verl(30, 41)) == []

    def test_a_rank_that_loads_more_slowly_has_not_begun_again(self) -> None:
        shards = "Loading checkpoint shards: {:>4.0%}|# | {}/4 [00:03<00:01,  1.2it/s]\n"
        bars = [shards.format(n / 4, n) for n in (3, 4, 2)]
        assert alerts(bars[0], self.DIED, *bars[1:]) == ["cuda_oom_training.oom"]

    def test_what_ends_the_second_attempt_is_the_root(self) -> None:
        ended = TRAIN + "KeyError: 'answer'\n"
        [root] = read(verl(1, 51), self.DIED, self.LAUNCH, verl(1, 20), ended)
        assert root.evidence[0].text == "KeyError: 'answer'"

    def test_what_is_started_after_the_second_attempt_changes_nothing(self) -> None:
        shards = "Loading checkpoint shards: 100%|####| 4/4 [00:03<00:00,  1.2it/s]\n"
        assert alerts(verl(1, 51), self.DIED, self.LAUNCH, verl(1, 41), shards) == []

    def test_an_attempt_that_counts_nothing_has_not_trained(self) -> None:
        assert alerts(verl(1, 51), self.DIED, self.LAUNCH, MORE) == ["cuda_oom_training.oom"]

    def test_an_evaluation_is_no_second_attempt(self) -> None:
        scores = "".join(f"batch step {n} score 0.5\n" for n in range(1, 9))
        evaluation = f"+ python3 eval.py\n{scores}"
        assert alerts(verl(1, 51), self.DIED, evaluation) == ["cuda_oom_training.oom"]

    def test_steps_that_fall_back_to_the_first_one_need_no_launch_line(self) -> None:
        assert alerts(verl(1, 51), self.DIED, verl(1, 41)) == []

    @pytest.mark.parametrize("after", [[50, 49, 50], [1, 50, 3, 49], [2, 1], [7, 8, 9], [1, 1, 1]])
    def test_steps_that_come_out_of_order_are_no_second_attempt(self, after: list[int]) -> None:
        late = "".join(verl(n, n + 1) for n in after)
        assert alerts(verl(1, 51), self.DIED, late) == ["cuda_oom_training.oom"]


class TestOver:
    @pytest.mark.parametrize(
        "end",
        [
            "{'train_runtime': 60.5, 'train_loss': 1.25, 'epoch': 1.0}",
            "(Task pid=3) Final validation metrics: {'val/reward': 0.5}",
            "(Task pid=3) Training Progress: 100%|##########| 30/30 [10:00<00:00, 20.0s/it]",
            "Training completed. The model is in out/",
        ],
    )
    @pytest.mark.parametrize(
        "noise", [ENGINE_DIED, "*** SIGTERM received at time=1 on cpu 3 ***\n"]
    )
    def test_who_dies_when_training_is_over_raises_no_alert(self, end: str, noise: str) -> None:
        assert alerts(STEPS, f"{end}\n", noise) == []
        assert alerts(STEPS, noise) != []

    @pytest.mark.parametrize(
        "no_end",
        [
            "(Task pid=3) Training Progress:  50%|#####     | 15/30 [05:00<05:00, 20.0s/it]",
            "Loading weights: 100%|##########| 4/4 [00:04<00:00, 1.0s/it]",
            "Epoch 1: training complete",
        ],
    )
    def test_who_dies_before_training_is_over_does(self, no_end: str) -> None:
        assert alerts(STEPS, f"{no_end}\n", ENGINE_DIED) == ["vllm_init_failure.engine_died"]

    LEFT = HEADER + frames("/w/train.py:<module>") + "SystemExit"
    CORE = HEADER + frames("/x/vllm/v1/engine/core.py:signal_handler") + "SystemExit\n"
    DONE = "{'train_runtime': 60.5, 'train_loss': 1.25, 'epoch': 1.0}\n"

    def test_an_exit_without_an_error_code_is_no_failure(self) -> None:
        assert alerts(STEPS, f"{self.LEFT}: 0\n") == []
        assert alerts(STEPS, f"{self.LEFT}: 1\n") == ["job_cancelled_or_interrupted.interrupt"]

    def test_a_process_that_is_told_to_leave_after_training_is_taken_down(self) -> None:
        served = "Loading checkpoint shards: 100%|####| 4/4 [00:03<00:00,  1.2it/s]\n"
        assert alerts(STEPS, self.DONE, self.CORE) == []
        assert alerts(STEPS, self.DONE, served, self.CORE) == []

    def test_one_that_leaves_while_training_lasts_was_interrupted(self) -> None:
        assert alerts(STEPS, self.CORE) != []
        assert alerts(self.DONE, STEPS, self.CORE) != []

    def test_a_second_training_is_not_over_because_the_first_was(self) -> None:
        again = "***** Running training *****\n"
        assert alerts("Training completed\n", again, ENGINE_DIED) != []

    def test_a_cause_is_a_cause_though_training_is_over(self) -> None:
        full = "OSError: [Errno 28] No space left on device: 'out/model.safetensors'\n"
        assert alerts("Training completed, saving\n", full) == ["checkpoint_disk_full"]
        assert alerts("Training completed, saving\n", "Killed\n") != []


class TestSubstitute:
    MISSING = (
        HEADER + frames("/w/model.py:<module>") + "ModuleNotFoundError: No module named 'odd'\n"
    )
    INSTEAD = "WARNING: odd is not there, falling back to even\n"
    START = "***** Running training *****\n"

    def test_what_is_replaced_is_no_alert_once_the_start_goes_on(self) -> None:
        assert alerts(self.INSTEAD, self.MISSING, self.START) == []
        assert alerts(self.MISSING, self.INSTEAD, self.START) == []

    def test_it_is_one_where_nothing_comes_after_it(self) -> None:
        assert alerts(self.INSTEAD, self.MISSING) == ["python_env_import.missing"]

    def test_it_is_one_where_something_else_was_replaced(self) -> None:
        far = "loading\n" * 20
        assert alerts(self.INSTEAD, far, self.MISSING, self.START) == ["python_env_import.missing"]


def test_the_evidence_of_a_root_beside_the_judge_is_its_own() -> None:
    assert read(STEPS, REFUSED, TRAIN, OOM)[0].evidence[0].text == OOM.strip()
