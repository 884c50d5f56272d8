"""The same words mean another trouble below other frames."""

from __future__ import annotations

import pytest

from engine.run.finding import Severity
from tests.engine.doctor.text.reading import HEADER, frames, read

PACKAGES = "/v/lib/python3.11/site-packages"
REQUESTS = f"{PACKAGES}/requests/models.py:raise_for_status"
REFUSED = "requests.exceptions.HTTPError: 401 Client Error: Unauthorized\n"
BROKEN = "requests.exceptions.HTTPError: 502 Server Error: Bad Gateway\n"


def category(place: str, said: str) -> str:
    return read(HEADER, frames("/w/mine/train.py:main", place, REQUESTS), said)[0].category


@pytest.mark.parametrize(
    ("place", "refused", "broken"),
    [
        (f"{PACKAGES}/openai/_client.py:post", "judge_auth", "judge_timeout_or_connection"),
        (
            f"{PACKAGES}/huggingface_hub/utils/_http.py:hf_raise_for_status",
            "model_not_found_or_hub",
            "model_not_found_or_hub",
        ),
        (
            f"{PACKAGES}/transformers/utils/hub.py:cached_file",
            "model_not_found_or_hub",
            "model_not_found_or_hub",
        ),
        (f"{PACKAGES}/wandb/sdk/internal/internal_api.py:execute", "wandb_auth", "wandb_network"),
        (
            f"{PACKAGES}/datasets/load.py:load_dataset",
            "data_missing_or_schema",
            "data_missing_or_schema",
        ),
    ],
)
def test_the_frames_decide_whose_http_error_it_is(place: str, refused: str, broken: str) -> None:
    assert (category(place, REFUSED), category(place, BROKEN)) == (refused, broken)


def test_a_judge_that_is_called_while_data_are_mapped_stays_the_judge() -> None:
    mapped = f"{PACKAGES}/datasets/arrow_dataset.py:map"
    client = f"{PACKAGES}/openai/_base_client.py:request"
    [finding] = read(
        HEADER, frames(mapped, client), "openai.AuthenticationError: Error code: 401\n"
    )
    assert finding.category == "judge_auth"


@pytest.mark.parametrize(
    "divides",
    [
        "n = len(rows) // self.config.micro_batch_size",
        "if step % args.save_every == 0:",
        "assert config.batch % config.micro == 0\n           ~~~~~~~~~~~~~^~~~~~~~~~~~~~",
    ],
)
def test_a_setting_of_zero_that_is_divided_by_is_a_settings_error(divides: str) -> None:
    place = f'  File "/w/reward_fn.py", line 3, in go\n    {divides}\n'
    [finding] = read(HEADER, place, "ZeroDivisionError: integer modulo by zero\n")
    assert finding.category == "config_error"


def test_a_division_by_another_number_is_the_functions() -> None:
    place = '  File "/w/x.py", line 3, in compute_score\n    return args.weight * hits / total\n'
    [finding] = read(HEADER, place, "ZeroDivisionError: division by zero\n")
    assert finding.category == "reward_function_error"


@pytest.mark.parametrize("name", ["my_reward", "reward_fn", "rewards", "reward_math"])
def test_a_module_that_scores_has_raised_the_error(name: str) -> None:
    [finding] = read(HEADER, frames(f"/w/{name}.py:go"), "RuntimeError: nope\n")
    assert finding.category == "reward_function_error"


@pytest.mark.parametrize("name", ["main_reward", "train_reward_model", "reward_trainer"])
def test_a_program_that_trains_a_reward_model_scores_nothing(name: str) -> None:
    line = "RuntimeError: This trainer does not support multi GPU setups yet\n"
    [finding] = read(HEADER, frames(f"/w/{name}.py:main"), line)
    assert finding.category == "training_setup_error"


def test_a_pad_token_that_is_not_set_explains_a_crash_right_after() -> None:
    unset = "ERROR - tokenization_utils -   Using pad_token, but it is not set yet.\n"
    crash = HEADER + frames("/w/mine/train.py:collate")
    assert [finding.category for finding in read(unset, crash)] == ["tokenizer_or_chat_template"]


def test_scoring_that_fails_for_one_sample_after_the_other_is_the_reward_functions() -> None:
    failed = "Error executing sandbox code: 'result'\n"
    assert read(failed) == []
    assert [finding.category for finding in read(failed, failed)] == ["reward_function_error"]


def test_attempts_of_wandb_explain_the_name_that_cannot_be_resolved_below() -> None:
    below = frames(f"{PACKAGES}/urllib3/connection.py:_new_conn")
    line = "socket.gaierror: [Errno -3] Temporary failure in name resolution\n"
    [finding] = read("Retry attempt failed:\n", HEADER, below, line)
    assert finding.category == "wandb_network"


@pytest.mark.parametrize("above", ["", "{'loss': 1.4, 'epoch': 0.1}\n" * 10])
def test_the_exception_in_a_group_is_told_with_its_frames(above: str) -> None:
    group = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/w/train.py", line 12, in <module>\n'
        "  |     asyncio.run(main())\n"
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "/w/roll.py", line 40, in go\n'
        "    |     await score(x)\n"
        "    | KeyError: 'score'\n"
        "    +------------------------------------\n"
    )
    [finding] = read(above, group)
    assert (finding.severity, finding.followed_by) == (Severity.ERROR, ())
    assert [proof.text for proof in finding.evidence] == [
        "KeyError: 'score'",
        "raised in /w/roll.py:go",
    ]


def test_an_exception_without_frames_is_told_as_the_last_words_of_a_log() -> None:
    [finding] = read("starting\n", "ValueError: the moon is full\n")
    assert finding.evidence[0].text == "ValueError: the moon is full"


@pytest.mark.parametrize(
    ("entry", "category"),
    [
        ("/v/lib/python3.11/site-packages/trainkit/cli/main.py:cli_main", "config_error"),
        ("/v/lib/python3.11/site-packages/trainkit/data/load.py:rows", "data_missing_or_schema"),
    ],
)
def test_an_unknown_key_of_the_command_line_is_no_key_of_the_data(
    entry: str, category: str
) -> None:
    starter = "/v/bin/trainkit:<module>"
    assert read(HEADER, frames(starter, entry), "KeyError: 'ppoo'\n")[0].category == category


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: dataset has dict_keys(['question', 'best']), needs one of: ['text']",
        "ValueError: the fields of rows.jsonl are others than the template needs",
    ],
)
def test_a_message_about_columns_of_a_data_set_is_about_the_data(message: str) -> None:
    assert read(message + "\n")[0].category == "data_missing_or_schema"
