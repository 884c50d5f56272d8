"""What sounds like trouble and is none: said in passing, tried again, printed by others."""

from __future__ import annotations

import pytest

from engine.doctor.text.findings import findings
from tests.engine.doctor.text.reading import HEADER, STEPS, alerts, frames, ids, read, reader_of

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n"
TRAIN = HEADER + frames("/w/train.py:<module>", "/x/torch/optim/adam.py:step")
BANNER = "loading\n***** Running training *****\n  Num examples = 1,000\n"
MORE = "2025-01-01 00:00:00 the program goes on with what it does\n" * 8
HTTP_503 = "judge: HTTP Error 503: Service Unavailable"


@pytest.mark.parametrize(
    "remark",
    [
        "Engine: FlashInfer requires JIT compilation but nvcc is absent",
        "tiny-model does not have a padding token! Will use pad_token = <|pad|>",
        "Ignore import error when loading models.foo: No module named 'foo.bar'",
        "foo 1.0 requires bar==2.0, but you have bar 3.0 which is incompatible.",
        "Not using flash_attn: No module named 'flash_attn'",
        "No module named 'apex', using torch AdamW",
        "No checkpoint found, training from scratch",
        "config check: batch size must be a multiple of 4: ok",
        "WARNING:judge:Rate limit reached, sleeping 2s",
        "jax: Unable to initialize backend 'tpu': no libtpu.so",
        "Unable to initialize backend 'rocm': module 'x' has no attribute 'GpuAllocatorConfig'",
        "Solving environment: failed with initial frozen solve. Retrying with flexible solve.",
        "Allocator ran out of memory trying to allocate 2GiB. This is not a failure, but slow.",
        "Choice(content_filter_results={'hate': {'filtered': False}}, finish_reason='stop')",
        "sample 3: verdict: Memory Limit Exceeded, score 0.0",
        "asyncio: the task was cancelled after its answer had come",
        "Sequence group 0 is preempted by PreemptionMode.RECOMPUTE: not enough KV cache space",
        "Last heartbeat was sent 6901 ms ago; this node can be marked as dead mistakenly.",
        "Registered signal handler for SIGTERM; saving on preemption",
    ],
)
def test_a_remark_that_complains_of_nothing_is_no_alert_where_the_log_goes_on(remark: str) -> None:
    assert alerts("starting\n", f"{remark}\n", MORE) == []


def test_the_same_words_are_an_alert_where_they_complain_or_are_the_last() -> None:
    line = "No module named 'apex'"
    assert alerts(f"{line}\n") == ["python_env_import.missing"]
    assert alerts(f"ModuleNotFoundError: {line}\n", MORE) == ["python_env_import.missing"]


def test_a_bare_killed_counts_only_among_the_last_words_of_a_log() -> None:
    story = "The dragon was\nKilled\nby the knight, and they lived happily ever after.\n"
    assert alerts(story, MORE * 10) == []
    assert alerts(MORE * 10, "Killed\n") == ["job_cancelled_or_interrupted.bare"]


def test_a_bare_terminated_counts_only_as_the_last_line_of_a_log() -> None:
    assert alerts("Terminated\n", "the next one is started\n") == []
    assert alerts("starting\n", "Terminated\n") == ["job_cancelled_or_interrupted.shell"]


def test_an_exception_among_what_a_tested_program_prints_is_no_alert() -> None:
    assert alerts("ZeroDivisionError: division by zero\n", MORE * 10) == []


def test_what_a_tests_report_shows_behind_its_e_is_no_finding() -> None:
    assert ids("E   AssertionError: assert 3 == 4\n", "E   ValueError: no\n") == []


def test_a_queue_that_breaks_while_the_process_ends_is_noise() -> None:
    feeder = frames("/usr/lib/python3.11/multiprocessing/queues.py:_feed")
    assert ids(HEADER, feeder, "BrokenPipeError: [Errno 32] Broken pipe\n") == []


def test_a_judge_that_is_given_up_once_by_a_run_that_trains_on_is_no_alert() -> None:
    gave_up = f"ERROR {HTTP_503}, giving up after 4 attempts\n"
    assert alerts(STEPS, gave_up, STEPS.replace("step ", "step 1")) == []
    assert alerts(STEPS, gave_up * 3, STEPS.replace("step ", "step 1")) == [
        "judge_timeout_or_connection"
    ]


def test_attempts_that_failed_explain_an_end_that_nothing_else_does() -> None:
    attempt = f"WARNING {HTTP_503}. Retrying...\n"
    end = HEADER + frames("/w/mine/run.py:main", "/v/site-packages/click/core.py:invoke")
    assert ids(attempt, end) == ["judge_timeout_or_connection"]
    assert ids(attempt, MORE) == []


def test_attempts_that_are_the_last_words_of_a_log_have_not_come_through() -> None:
    attempt = f"Retrying in {{}} s as it raised {HTTP_503}\n"
    assert ids(*(attempt.format(2**n) for n in range(3))) == ["judge_timeout_or_connection"]
    assert ids(*(attempt.format(2**n) for n in range(3)), MORE * 10) == []


def test_attempts_of_a_run_that_may_yet_come_through_are_no_finding() -> None:
    attempt = f"Retrying in {{}} s as it raised {HTTP_503}\n"
    reader = reader_of(*(attempt.format(2**n) for n in range(3)))
    assert findings(reader, ended=False) == []


def test_what_cannot_be_fixed_by_trying_again_stays_a_finding() -> None:
    refused = "WARNING: openai.BadRequestError: Error code: 400 - {'code': 'content_filter'}\n"
    assert ids(refused, "It may be a rate limit, so we are retrying...\n") == [
        "judge_content_filter"
    ]


class TestStartUp:
    """What is said while a program starts is seldom what breaks it later."""

    @pytest.mark.parametrize(
        "remark",
        [
            "/var/spool/slurmd/job12/slurm_script: line 12: module: command not found",
            "ls: cannot access 'out/checkpoint-*': No such file or directory",
            "mkdir -p failed for path /root/.config: [Errno 13] Permission denied: '/root'",
            "Failed to import apex: No module named 'apex'",
            "No checkpoint found, so training starts from the base model",
            "`accelerate` configuration file /root/a.yaml does not exist, defaults are used",
        ],
    )
    def test_what_was_raised_once_the_start_went_on_is_the_root(self, remark: str) -> None:
        [root] = read(f"{remark}\n", BANNER, TRAIN, OOM)
        assert (root.id, root.followed_by) == ("cuda_oom_training.oom", ())

    def test_a_shell_that_complains_starts_the_program_all_the_same(self) -> None:
        remark = "slurm_script: line 12: module: command not found\n"
        assert ids(remark, MORE, TRAIN, OOM) == ["cuda_oom_training.oom"]

    def test_a_line_just_above_the_traceback_led_to_it(self) -> None:
        assert ids("Failed to import apex: No module named 'apex'\n", TRAIN, OOM) == [
            "python_env_import.missing"
        ]

    def test_a_line_said_in_training_is_none_of_the_start(self) -> None:
        assert ids(STEPS, "sh: line 1: ninja: command not found\n", BANNER, TRAIN, OOM) == [
            "python_env_import"
        ]

    def test_who_waits_for_a_rank_that_died_in_a_line_is_not_the_root(self) -> None:
        waiting = HEADER + frames("/w/train.py:<module>") + "OddityError: the others are gone\n"
        assert ids(f"[rank1]: {OOM}", BANNER, waiting) == ["cuda_oom_training.oom"]


class TestProgramsUnderTest:
    """A model writes programs, and they break."""

    MISSING = "ModuleNotFoundError: No module named 'numpy'\n"
    SCORE = "pass@1: 0.62\n"
    PLACES = (
        ("/tmp/tmpab3x/solution.py:<module>",),
        ("/tmp/tmpab3x.py:<module>", "/usr/lib/python3.11/json/decoder.py:decode"),
        ("<string>:<module>",),
        ("/w/reward.py:run", "<string>:solve"),
    )

    @pytest.mark.parametrize("places", PLACES)
    def test_it_is_no_alert_where_the_log_goes_on(self, places: tuple[str, ...]) -> None:
        broke = HEADER + frames(*places) + self.MISSING
        done = "{'train_runtime': 60.5, 'train_loss': 1.25}\n"
        assert alerts(STEPS, broke, self.SCORE, MORE) == []
        assert alerts(STEPS, done, broke, self.SCORE, MORE) == []

    @pytest.mark.parametrize("places", PLACES)
    def test_it_is_one_where_the_log_ends(self, places: tuple[str, ...]) -> None:
        assert alerts(STEPS, HEADER + frames(*places) + self.MISSING) == [
            "python_env_import.missing"
        ]

    @pytest.mark.parametrize(
        "places",
        [
            ("/w/train.py:<module>", "<string>:<module>"),
            ("<string>:<module>", "/usr/lib/python3.11/multiprocessing/spawn.py:spawn_main"),
            ("/tmp/tmpab3x/solution.py:<module>", "/w/train.py:main"),
        ],
    )
    def test_the_trainers_own_program_is_not_under_test(self, places: tuple[str, ...]) -> None:
        broke = HEADER + frames(*places) + self.MISSING
        assert alerts(STEPS, broke, MORE) == ["python_env_import.missing"]
