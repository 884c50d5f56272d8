"""The reward manager: what verl gets, what reward.jsonl says, what happens without a reward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from transformers import AutoTokenizer
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.dapo import DAPORewardManager

from engine.base import jsonl
from engine.base.typed import to_json
from engine.run.conversation import FIELD, Call, Conversation, Turn
from engine.train.agent_loop import SPLIT
from engine.train.reward_entry import NoRewardError, RecordingRewardManager
from tests.engine.train.conftest import SmallWorld

GOLD: dict[str, Any] = {
    "question": "Is it safe?",
    "answers": ["rest well", "run far"],
    "gold_scores": [1.0, 0.0],
}


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRUBRICS_ATTEMPT_DIR", str(tmp_path))
    return tmp_path


OVERLONG: dict[str, Any] = {
    "max_resp_len": 40,
    "overlong_buffer_cfg": {"enable": True, "len": 13, "penalty_factor": 0.7, "log": True},
}


def manager(
    world: SmallWorld,
    compute_score: Any = None,
    grubrics: Any = None,
    task: str | None = None,
    **kwargs: Any,
) -> RecordingRewardManager:
    path = task or ("scores.py" if compute_score else None)
    config = OmegaConf.create(
        {
            "reward": {"custom_reward_function": {"path": path}, "reward_kwargs": kwargs},
            "judge": {"provider": "offline"},
            "reward_config": {"lambda_info": 0.3},
            "grubrics": grubrics or {},
        }
    )
    return RecordingRewardManager(config, AutoTokenizer.from_pretrained(world.model), compute_score)


def sample(world: SmallWorld, text: str, step: int = 1, **extra: Any) -> DataProto:
    """One generation as verl's agent loop hands it over."""
    tokens = torch.tensor([AutoTokenizer.from_pretrained(world.model)(text)["input_ids"]])
    batch = TensorDict(
        {"responses": tokens, "attention_mask": torch.ones(1, 3 + tokens.size(1)).long()}, [1]
    )
    row = {
        "data_source": "tiny",
        "reward_model": {"ground_truth": ""},
        "extra_info": {"question_id": "q1", "split": "train", **extra},
        "uid": "group-7",
        "session_id": 2,
        "global_steps": step,
    }
    return DataProto(batch, {key: np.array([value], dtype=object) for key, value in row.items()})


def record(attempt: Path) -> dict[str, Any]:
    (line,) = jsonl.read(attempt / "reward.jsonl")
    return line


async def test_a_rubric_is_scored_and_recorded_with_its_place(
    world: SmallWorld, attempt: Path
) -> None:
    rubric = "Points: 10, Item: Advises rest."
    result = await manager(world).run_single(sample(world, rubric, **GOLD))
    line = record(attempt)
    assert line["reward"] == result["reward_score"]
    assert line["rubric"] == rubric
    assert (line["group"], line["rollout"], line["step"], line["split"]) == (
        "group-7",
        2,
        1,
        "train",
    )


async def test_a_row_without_gold_scores_has_no_reward_and_a_reason(
    world: SmallWorld, attempt: Path
) -> None:
    with pytest.raises(NoRewardError, match=r"data: Missing precomputed answers"):
        await manager(world).run_single(sample(world, "Points: 10, Item: x."))
    assert record(attempt)["reward"] is None
    assert record(attempt)["error"]["kind"] == "data"


@pytest.mark.parametrize(("split", "step"), [("val", 3), ("holdout", 3), ("train", 0)])
async def test_validation_and_training_rollouts_are_distinguished(
    world: SmallWorld, attempt: Path, split: str, step: int
) -> None:
    await manager(world).run_single(sample(world, "x", step=step, **{**GOLD, "split": split}))
    assert record(attempt)["split"] == "val"


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize("of_the_row", ["train", "val", None])
async def test_the_split_is_verls_and_not_that_of_the_data(
    world: SmallWorld, attempt: Path, split: str, of_the_row: str | None
) -> None:
    data = sample(world, "x", step=3, **{**GOLD, "split": of_the_row})
    data.non_tensor_batch[SPLIT] = np.array([split], dtype=object)
    await manager(world).run_single(data)
    assert record(attempt)["split"] == split


@pytest.mark.row("V33")
async def test_a_custom_reward_function_is_recorded_too(world: SmallWorld, attempt: Path) -> None:
    def length(solution_str: str, **_: Any) -> dict[str, float]:
        return {"score": len(solution_str), "words": len(solution_str.split())}

    result = await manager(world, length).run_single(sample(world, "two words"))
    assert result == {"reward_score": 9.0, "reward_extra_info": {"score": 9.0, "words": 2.0}}
    line = record(attempt)
    assert (line["reward"], line["parts"], line["answer"]) == (9.0, {"words": 2.0}, "two words")
    assert not {"rubric", "judge_scores", "gold_scores", "attempts"} & line.keys()


@pytest.mark.row("V20")
@pytest.mark.parametrize("outcome", [float("nan"), ValueError("backend down")])
async def test_nan_and_exceptions_of_a_reward_function_are_failures(
    world: SmallWorld, attempt: Path, outcome: float | Exception
) -> None:
    def broken(**_: Any) -> float:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with pytest.raises(NoRewardError):
        await manager(world, broken).run_single(sample(world, "x"))
    assert record(attempt)["reward"] is None


def one(**_: Any) -> float:
    return 0.7


def rollout_of(tokens: int) -> DataProto:
    """A rollout of so many tokens in a batch that is padded to 64."""
    mask = torch.cat([torch.ones(tokens), torch.zeros(64 - tokens)]).long()
    batch = TensorDict({"responses": torch.zeros(1, 64).long(), "attention_mask": mask[None]}, [1])
    row = {"data_source": "x", "reward_model": {"ground_truth": ""}, "extra_info": {}, "uid": "g"}
    return DataProto(batch, {key: np.array([value], dtype=object) for key, value in row.items()})


async def test_long_responses_lose_the_reward_that_verls_dapo_manager_takes(
    world: SmallWorld,
) -> None:
    ours = manager(world, one, **OVERLONG)
    verls = DAPORewardManager(ours.config, ours.tokenizer, one)
    lengths = np.random.default_rng(7).integers(1, 65, 1000).tolist()
    differences, shaped = [], 0
    for length in lengths:
        mine = await ours.run_single(rollout_of(length))
        theirs = await verls.run_single(rollout_of(length))
        differences.append(abs(mine["reward_score"] - float(theirs["reward_score"])))
        shaped += mine["reward_score"] < 0.7
        for name, value in theirs["reward_extra_info"].items():
            assert mine["reward_extra_info"][name] == pytest.approx(float(value), abs=1e-9)
    assert max(differences) <= 1e-9 and 300 < shaped < 700


async def test_the_overlong_penalty_is_recorded(world: SmallWorld, attempt: Path) -> None:
    await manager(world, one, **OVERLONG).run_single(rollout_of(40))
    line = record(attempt)
    assert line["reward"] == pytest.approx(0.0) and line["parts"] == {
        "overlong_reward": pytest.approx(-0.7)
    }


@pytest.mark.row("H24")
async def test_a_blocked_text_costs_the_reward_whatever_the_length(
    world: SmallWorld, attempt: Path
) -> None:
    blocklist: dict[str, Any] = {"blocklist": ["POINTS"], "blocked_reward": 0.25}
    blocking = manager(world, one, blocklist, **OVERLONG)
    result = await blocking.run_single(sample(world, "Points " * 40))
    assert result["reward_score"] == 0.25 and result["reward_extra_info"]["blocked"] == 1.0
    assert (record(attempt)["reward"], record(attempt)["blocked"]) == (0.25, ["POINTS"])


async def test_without_a_buffer_the_length_costs_nothing(world: SmallWorld, attempt: Path) -> None:
    await manager(world, one).run_single(rollout_of(64))
    assert (record(attempt)["reward"], record(attempt)["parts"]) == (0.7, None)


async def test_a_bare_number_has_the_name_that_verl_gives_it(world: SmallWorld) -> None:
    result = await manager(world, one).run_single(rollout_of(5))
    assert result["reward_extra_info"] == {"acc": 0.7}


def conversation(world: SmallWorld, *turns: tuple[str, bool]) -> DataProto:
    """A rollout with tools: the texts of its turns, and whether the model wrote them."""
    tokenizer = AutoTokenizer.from_pretrained(world.model)
    counted = [Turn(text, len(tokenizer(text)["input_ids"]), trained) for text, trained in turns]
    ids = [token for text, _ in turns for token in tokenizer(text)["input_ids"]]
    data = sample(world, "x")
    data.batch = TensorDict(
        {
            "responses": torch.tensor([ids]),
            "attention_mask": torch.ones(1, 3 + len(ids), dtype=torch.long),
        },
        [1],
    )
    calls = (Call(1, "price", "{}", "ok", turns[1][0]),)
    extra = {
        FIELD: to_json(Conversation(turns=tuple(counted), calls=calls, end="answer")),
        "tool_rewards": [0.5],
    }
    columns = {"tool_extra_fields": extra, "__num_turns__": 4}
    for name, value in columns.items():
        data.non_tensor_batch[name] = np.array([value], dtype=object)
    return data


SHOP = (("call", True), ("42 coins", False), ("It costs 7.", True))


@pytest.mark.parametrize(
    ("task", "scored"),
    [("task://questions", "It costs 7."), (None, "call42 coinsIt costs 7.")],
)
async def test_a_task_scores_the_last_turn_and_an_own_function_the_whole_response(
    world: SmallWorld, attempt: Path, task: str | None, scored: str
) -> None:
    seen: list[Any] = []

    def score(solution_str: str, extra_info: Any, **_: Any) -> float:
        seen.append((solution_str, extra_info))
        return 1.0

    await manager(world, score, task=task).run_single(conversation(world, *SHOP))
    text, extra_info = seen[0]
    assert text == scored
    assert (extra_info["num_turns"], extra_info["tool_rewards"]) == (4, [0.5])


async def test_turns_and_calls_are_recorded_and_counted(world: SmallWorld, attempt: Path) -> None:
    result = await manager(world, lambda **_: 1.0).run_single(conversation(world, *SHOP))
    assert [turn["trained"] for turn in record(attempt)[FIELD]["turns"]] == [True, False, True]
    numbers = result["reward_extra_info"]
    assert (numbers["acc"], numbers["turns"], numbers["calls_ok"]) == (1.0, 2.0, 1.0)


async def test_the_blocklist_reads_what_the_model_wrote_in_any_turn(
    world: SmallWorld, attempt: Path
) -> None:
    lists = {"blocklist": ["call", "coins"]}
    await manager(world, lambda **_: 1.0, lists).run_single(conversation(world, *SHOP))
    assert record(attempt)["blocked"] == ["call"]
