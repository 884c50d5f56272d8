"""A first config for a data file: it is valid, and it fits the file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.errors import UsageError
from engine.checks.demands import silent_defaults
from engine.config.load import Config, load_config
from engine.config.scoring import reward_function
from engine.data.contract import FileFacts, write_rows
from engine.launch.new_config import Words, describe_data, describe_model, write_config
from engine.reward.own.function import RewardFunction
from engine.run.kinds import GRPO, SFT

MESSAGES = [{"role": "user", "content": "2 + 3?"}, {"role": "assistant", "content": "5"}]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def jsonl_file(name: str, record: dict[str, Any]) -> Path:
    Path(name).write_text(json.dumps(record) + "\n")
    return Path(name)


def sums_file(name: str = "sums.parquet", **changes: Any) -> Path:
    row: dict[str, Any] = {
        "data_source": "sums",
        "prompt": [{"role": "user", "content": "2 + 3?"}],
        "reward_model": {"style": "rule", "ground_truth": "5"},
        "extra_info": {"index": 0},
    }
    pq.write_table(pa.Table.from_pylist([{**row, **changes}]), name)
    return Path(name)


def rubric_file(name: str, *, use_contrastive: bool) -> Path:
    row: dict[str, Any] = {
        "data_source": "tiny",
        "prompt": [{"role": "user", "content": "Write a rubric"}],
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": {"answers": ["a", "b"], "gold_scores": [0.0, 1.0]},
    }
    facts = FileFacts("tiny", "train", use_contrastive, None, 0)
    write_rows(Path(name), [row], facts)
    return Path(name)


def loaded(name: str) -> Config:
    return load_config(name, (), env={})


def test_conversations_become_an_sft_config() -> None:
    new = write_config(jsonl_file("chats.jsonl", {"messages": MESSAGES}), model="models/base")
    assert (new.name, new.path, new.reward) == ("chats", Path("configs/chats.yaml"), None)
    config = loaded("chats")
    assert config.kind == SFT
    assert config.get("data.train_file") == "chats.jsonl"
    assert config.get("model.path") == "models/base"


@pytest.mark.parametrize(
    ("context", "sequence", "prompt", "response"),
    [(None, 1024, 512, 512), (32_768, 1024, 512, 512), (512, 512, 256, 256), (129, 129, 64, 65)],
)
def test_the_lengths_fit_into_the_context_of_the_model(
    context: int | None, sequence: int, prompt: int, response: int
) -> None:
    Path("model").mkdir()
    Path("model/config.json").write_text(json.dumps({"max_position_embeddings": context}))
    write_config(jsonl_file("chats.jsonl", {"messages": MESSAGES}), model="model")
    assert loaded("chats").get("data.max_seq_length") == sequence
    write_config(sums_file(), model="model")
    lengths = [loaded("sums").get(f"data.max_{part}_length") for part in ("prompt", "response")]
    assert lengths == [prompt, response]


@pytest.mark.parametrize(
    "record",
    [
        {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
        {"instruction": "a", "input": "", "output": "b"},
        {"prompt": "a", "completion": "b"},
        {"prompt": "a", "chosen": "b", "rejected": "c"},
    ],
)
@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_sft_data_of_other_tools_are_trained_on_as_they_are(
    record: dict[str, Any], suffix: str
) -> None:
    path = Path(f"chats.{suffix}")
    path.write_text(json.dumps([record] if suffix == "json" else record))
    new = write_config(path)
    config = loaded(new.name)
    assert (config.kind, config.get("data.train_file")) == (SFT, str(path))
    assert any("rejected" in note for note in new.notes) is ("rejected" in record)


FORMS = {
    "Write Answer: $ANSWER in the last line.": "So it is.\nAnswer: 5",
    "Put it in \\boxed{}.": "\\boxed{5}",
    "Put it between <answer> and </answer>.": "<think>3?</think>\n<answer> 5 </answer>",
    "Only the number.": "5",
}


@pytest.mark.parametrize("truth", ["1234567", '["1,234,567"]', {"target": ["1234567", "x"]}])
@pytest.mark.parametrize("asks", FORMS)
def test_the_written_reward_pays_for_the_form_that_the_prompt_asks_for(
    asks: str, truth: Any
) -> None:
    prompt = [{"role": "user", "content": f"1234560 + 7? {asks}"}]
    model = {"style": "rule", "ground_truth": truth}
    new = write_config(sums_file(prompt=prompt, reward_model=model))
    assert new.reward is not None
    namespace: dict[str, Any] = {}
    exec(new.reward.read_text(), namespace)
    score = namespace[RewardFunction.name]
    for answer, expected in (("1234567", 1.0), ("1234568", 0.0), ("", 0.0)):
        text = FORMS[asks].replace("5", answer)
        assert score("sums", text, truth, {}) == expected, text


@pytest.mark.parametrize(
    ("source", "scored"), [("math_dapo", True), ("searchR1_nq", True), ("sums", False)]
)
def test_verl_scores_rows_whose_source_it_knows(source: str, scored: bool) -> None:
    truth: Any = {"target": ["5"]} if source.startswith("search") else "5"
    asks = "<answer> X </answer>" if source.startswith("search") else "Answer: X"
    new = write_config(
        sums_file(
            data_source=source,
            prompt=[{"role": "user", "content": f"2 + 3? Write {asks} in the last line."}],
            reward_model={"ground_truth": truth},
        )
    )
    function = reward_function(loaded("sums"))
    assert function is not None
    assert ("verl_score" in function.path, new.reward is None) == (scored, scored)


def test_rows_of_verl_in_another_layout_are_prepared_with_their_sources() -> None:
    model = {"ground_truth": "5"}
    rows = [
        {
            "data_source": "math_dapo",
            "prompt": json.dumps([{"role": "user", "content": f"{n}? Write Answer: X at last."}]),
            "reward_model": json.dumps(model) if n % 2 else model,
        }
        for n in range(20)
    ]
    Path("old.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    new = write_config(Path("old.jsonl"))
    assert (new.data, new.missing) == (Path("data/old/train.parquet"), None)
    [row, *_] = pq.read_table(new.data).to_pylist()
    assert (row["data_source"], row["reward_model"]["ground_truth"]) == ("math_dapo", "5")
    assert row["prompt"][0]["content"].endswith("Write Answer: X at last.")


def test_rows_without_gold_scores_get_a_reward_function_that_works() -> None:
    new = write_config(sums_file())
    config = loaded("sums")
    assert config.kind == GRPO
    assert config.get("data.apply_chat_template_kwargs.enable_thinking") is False
    assert config.get("reward.custom_reward_function.path") == str(new.reward)
    namespace: dict[str, Any] = {}
    assert new.reward is not None
    exec(new.reward.read_text(), namespace)
    score = namespace[RewardFunction.name]
    arguments = {"data_source": "sums", "ground_truth": "5", "extra_info": {}}
    assert score(solution_str="2 and 3\n5", **arguments) == 1.0
    assert score(solution_str="6", **arguments) == score(solution_str="", **arguments) == 0.0


@pytest.mark.parametrize(
    ("code", "given", "name"),
    [
        ("def compute_score(**_): ...\ndef other(): ...\n", "my.py", "compute_score"),
        ("async def score(**_): ...\n_x = 1\n", "my.py", "score"),
        ("def a(**_): ...\ndef b(**_): ...\n", "my.py:b", "b"),
        ("def a(**_): ...\nlgc_score = a\n", "my.py:lgc_score", "lgc_score"),
        ("from rules import compute_score\n", "my.py", "compute_score"),
    ],
)
def test_an_own_reward_is_named_by_file_and_function(code: str, given: str, name: str) -> None:
    Path("my.py").write_text(code)
    new = write_config(sums_file(), reward=given)
    assert new.reward is None
    function = reward_function(loaded("sums"))
    assert function is not None
    assert (function.path, function.name) == ("my.py", name)


@pytest.mark.parametrize(
    ("code", "given", "says"),
    [
        (None, "my.py", "my.py: No such file"),
        ("def (", "my.py", "my.py:1 is not Python"),
        ("def a(): ...\ndef b(): ...\n", "my.py", r"it has a, b\); name it: my.py:"),
        ("def score(): ...\n", "my.py:scor", "name it: my.py:score"),
    ],
)
def test_a_reward_that_is_not_there_is_named_and_nothing_is_written(
    code: str | None, given: str, says: str
) -> None:
    if code is not None:
        Path("my.py").write_text(code)
    with pytest.raises(UsageError, match=says):
        write_config(sums_file(), reward=given)
    assert not Path("configs").exists()


@pytest.mark.parametrize("row", [{"messages": MESSAGES}, {"prompt": "2 + 3?", "response": "5"}])
def test_conversations_in_parquet_become_an_sft_config(row: dict[str, Any]) -> None:
    pq.write_table(pa.Table.from_pylist([row]), "chats.parquet")
    write_config(Path("chats.parquet"))
    assert loaded("chats").kind == SFT


def test_a_task_scores_the_answers_of_its_file() -> None:
    write_config(sums_file(), task="questions")
    assert loaded("sums").get("reward.custom_reward_function.path") == "task://questions"


def test_a_config_has_one_reward() -> None:
    with pytest.raises(UsageError, match="--task and --reward"):
        write_config(sums_file(), task="questions", reward="my.py")


def questions_file(name: str, count: int = 20) -> Path:
    """Questions and answers in the format of the name's suffix."""
    records = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(count)]
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(records), name)
    elif name.endswith(".csv"):
        lines = [f"{each['question']},{each['answer']}\n" for each in records]
        Path(name).write_text("question,answer\n" + "".join(lines))
    else:
        Path(name).write_text("".join(json.dumps(each) + "\n" for each in records))
    return Path(name)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_records_of_a_task_are_prepared(suffix: str) -> None:
    new = write_config(questions_file(f"q.{suffix}"), task="questions")
    assert new.prepared is not None and new.prepared.train + new.prepared.validation == 20
    assert (new.name, new.data, new.missing) == ("q", Path("data/q/train.parquet"), None)
    config = loaded("q")
    assert config.get("data.train_files") == "data/q/train.parquet"
    assert config.get("data.val_files") == "data/q/val.parquet"
    assert config.get("reward.custom_reward_function.path") == "task://questions"


def test_columns_of_other_names_are_given() -> None:
    jsonl_file("f.jsonl", {"Frage": "2 + 3?", "Antwort": 5})
    with Path("f.jsonl").open("a") as file:
        file.write(json.dumps({"Frage": "2 + 4?", "Antwort": 6}) + "\n")
    with pytest.raises(UsageError, match="--column question=COLUMN"):
        write_config(Path("f.jsonl"), task="questions")
    columns = ("question=Frage", "answer=Antwort")
    new = write_config(Path("f.jsonl"), task="questions", columns=columns)
    assert new.prepared is not None and new.prepared.train == 1


def test_columns_are_refused_for_a_file_that_is_used_as_it_is() -> None:
    with pytest.raises(UsageError, match="--column question=Frage"):
        write_config(sums_file(), task="questions", columns=("question=Frage",))


def test_columns_are_refused_for_sft_which_reads_its_own_names() -> None:
    Path("pairs.csv").write_text("frage,antwort\na,b\n")
    with pytest.raises(UsageError, match=r"--column prompt=frage.* rename .* prompt and response"):
        write_config(Path("pairs.csv"), columns=("prompt=frage", "response=antwort"))


def test_a_missing_file_of_records_is_named_with_the_formats() -> None:
    with pytest.raises(UsageError, match=r"none\.csv does not exist; give a file .*\.csv"):
        write_config(Path("none.csv"), task="questions")


def test_records_for_an_own_reward_keep_their_prompts() -> None:
    Path("my.py").write_text("def compute_score(**_): ...\n")
    new = write_config(questions_file("q.jsonl"), "mine", reward="my.py")
    assert "do not say how to write the answer" in new.notes[0]
    assert new.data == Path("data/mine/train.parquet")
    rows = pq.read_table(new.data).to_pylist()
    for row in rows:
        number = int(row["reward_model"]["ground_truth"]) - 1
        assert row["prompt"] == [{"role": "user", "content": f"{number} + 1?"}]
    function = reward_function(loaded("mine"))
    assert function is not None and function.path == "my.py"


def test_records_that_are_made_need_no_file() -> None:
    code = "def make(seed, index):\n    return {'prompt': f'{index}?', 'answer': seed}\n"
    Path("env.py").write_text(code + "def score(**_): ...\n")
    new = write_config(Path("env.py:make:30"), reward="env.py:score")
    assert new.prepared is not None and new.prepared.train + new.prepared.validation == 30


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"messages": MESSAGES}, "trains on as they are: grubrics-tui init q.jsonl"),
        ({"question": "2 + 3?"}, "answer"),
    ],
)
def test_records_of_another_task_are_named_and_nothing_is_written(
    record: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=rf"q\.jsonl:.*{says}"):
        write_config(jsonl_file("q.jsonl", record), task="questions")
    assert not Path("configs").exists() and not Path("data").exists()


def test_prepared_files_are_not_overwritten() -> None:
    write_config(questions_file("q.jsonl"), task="questions")
    Path("configs/q.yaml").unlink()
    with pytest.raises(UsageError, match=r"data/q/train\.parquet exists; give it instead of q"):
        write_config(questions_file("q.jsonl", count=5), task="questions")
    assert write_config(Path("data/q/train.parquet"), task="questions").name == "q"


def test_a_config_that_exists_is_named_before_anything_is_prepared() -> None:
    write_config(sums_file("q.parquet"))
    with pytest.raises(UsageError, match=r"configs/q\.yaml exists"):
        write_config(questions_file("q.jsonl"), task="questions")
    assert not Path("data").exists()


def test_a_prepared_file_gives_the_config_the_name_of_its_folder() -> None:
    Path("data/riddles").mkdir(parents=True)
    assert write_config(sums_file("data/riddles/train.parquet")).name == "riddles"


@pytest.mark.parametrize(
    ("file", "description"),
    [
        ("data/riddles/train.parquet", "GRPO on riddles/train.parquet"),
        (
            "data/riddles/train-00000-of-00001.parquet",
            "GRPO on riddles/train-00000-of-00001.parquet",
        ),
        ("data/riddles/trains.parquet", "GRPO on trains.parquet"),
        ("riddles.parquet", "GRPO on riddles.parquet"),
    ],
)
def test_the_description_names_the_data_set(file: str, description: str) -> None:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    new = write_config(sums_file(file))
    assert loaded(new.name).get("grubrics.description") == description


def test_a_validation_file_that_does_not_exist_is_named() -> None:
    data = sums_file("train.parquet")
    assert write_config(data, "before").missing == Path("val.parquet")
    sums_file("val.parquet")
    assert write_config(data, "after").missing is None
    assert write_config(jsonl_file("chats.jsonl", {"messages": MESSAGES})).missing is None


@pytest.mark.parametrize("use_contrastive", [True, False])
def test_rows_with_gold_scores_are_judged_as_they_were_prepared(use_contrastive: bool) -> None:
    new = write_config(rubric_file("rows.parquet", use_contrastive=use_contrastive))
    config = loaded("rows")
    assert new.reward is None
    assert config.get("judge.provider") == "openai"
    assert config.get("reward_config.use_contrastive") is use_contrastive


@pytest.mark.parametrize(
    "name", ["a: b #.parquet", '"x\'""".parquet', "a\nb.parquet", "[é].parquet"]
)
def test_any_file_name_makes_a_valid_config(name: str) -> None:
    new = write_config(sums_file(name))
    assert loaded(new.name).get("data.train_files") == name
    assert new.reward is not None
    compile(new.reward.read_text(), "reward", "exec")


def test_a_name_that_a_config_would_replace_is_refused() -> None:
    with pytest.raises(UsageError, match="would replace"):
        write_config(sums_file("${env}.parquet"))
    assert not Path("configs").exists() and not Path("rewards").exists()


@pytest.mark.parametrize("name", ["", "../x", "a b", "x\n"])
def test_a_config_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(UsageError, match="--name"):
        write_config(sums_file(), name=name)


def test_the_file_beside_it_validates() -> None:
    sums_file("my_val.parquet")
    write_config(sums_file("my_train.parquet"))
    assert loaded("my_train").get("data.val_files") == "my_val.parquet"


def test_a_custom_reward_function_is_preserved() -> None:
    Path("rewards").mkdir()
    Path("rewards/sums.py").write_text("mine")
    write_config(sums_file())
    assert Path("rewards/sums.py").read_text() == "mine"


def test_a_name_that_is_taken_is_refused() -> None:
    write_config(sums_file())
    before = Path("configs/sums.yaml").read_text()
    with pytest.raises(UsageError, match=r"configs/sums\.yaml exists.*--name"):
        write_config(sums_file(), model="other")
    assert Path("configs/sums.yaml").read_text() == before
    assert write_config(sums_file(), name="again").path == Path("configs/again.yaml")


QUESTIONS = {"question": "2 + 3?", "answer": 5}
CALL = {"query": "2 + 3?", "tools": [{"name": "add"}], "answers": [{"name": "add"}]}
FORM = Words(name="'Name'", scoring="'Scored by'", task="type {task}", options=())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"data": "q.jsonl", "name": "taken", "task": "questions"}, "choose another 'Name'"),
        ({"data": "q.jsonl", "name": "a b", "task": "questions"}, "'Name' 'a b'"),
        ({"data": "q.jsonl"}, "For GRPO on questions and answers: type questions"),
        ({"data": "q.parquet"}, "For GRPO on questions and answers: type questions"),
        ({"data": "none.jsonl"}, "with 'Scored by' also .csv, .json, .tsv"),
        ({"data": "owner/data"}, "for a data set of the hub: type questions"),
        ({"data": "q.jsonl", "task": "rows"}, "not by a task: name FILE.py:FUNCTION"),
        ({"data": "q.jsonl", "reward": "my.py"}, "name it: my.py:FUNCTION"),
        (
            {"data": "q.jsonl", "task": "code"},
            "The command for --column: grubrics-tui prepare q.js",
        ),
    ],
)
def test_a_form_gets_errors_in_its_own_words(arguments: dict[str, str], says: str) -> None:
    Path("my.py").write_text("def a(): ...\ndef b(): ...\n")
    for name in ("q.jsonl", "q.parquet"):
        questions_file(name)
    write_config(sums_file("taken.parquet"))
    with pytest.raises(UsageError) as caught:
        write_config(
            Path(arguments["data"]),
            arguments.get("name"),
            task=arguments.get("task"),
            reward=arguments.get("reward"),
            words=FORM,
        )
    assert says in str(caught.value)
    assert not re.search("--(name|task|reward)(?! code)", str(caught.value))


def test_a_record_that_init_cannot_leave_out_is_named_with_the_command_that_can() -> None:
    bad = jsonl_file("bad.jsonl", {"question": "2 + 3?", "answer": ""})
    with pytest.raises(
        UsageError, match=r"--skip-unusable: grubrics-tui prepare bad.jsonl --task q"
    ):
        write_config(bad, task="questions")


@pytest.mark.parametrize("kind", ["sft", "task", "reward", "judge"])
def test_a_new_config_leaves_no_value_that_decides_what_is_learned_to_a_default(kind: str) -> None:
    match kind:
        case "sft":
            new = write_config(jsonl_file("chats.jsonl", {"messages": MESSAGES}))
        case "task":
            new = write_config(sums_file(), task="questions")
        case "reward":
            new = write_config(sums_file())
        case _:
            new = write_config(rubric_file("judged.parquet", use_contrastive=True))
    assert silent_defaults(loaded(new.name)) == {}


@pytest.mark.parametrize("name", ["q.jsonl", "q.csv", "q.parquet"])
def test_a_file_of_questions_without_a_task_is_refused_with_the_command_for_it(name: str) -> None:
    with pytest.raises(UsageError, match=f"answers: grubrics-tui init {name} --task questions"):
        write_config(questions_file(name))


def test_records_are_not_prepared_in_the_folder_of_the_demo() -> None:
    with pytest.raises(UsageError, match="data/tiny is the folder of the demo; choose another --n"):
        write_config(questions_file("q.jsonl"), "tiny", task="questions")
    assert not Path("data/tiny").exists()


def test_a_model_that_is_not_on_the_disk_is_noted() -> None:
    new = write_config(sums_file(), model="nosuch/model")
    assert new.notes == (
        "the model nosuch/model is not on this disk; check says whether the hub has it",
    )


def test_a_file_that_cannot_be_trained_on_is_named_before_a_config_that_exists() -> None:
    write_config(sums_file("q.parquet"))
    with pytest.raises(UsageError, match="has answer, question; SFT reads messages"):
        write_config(jsonl_file("q.jsonl", QUESTIONS))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "line 1 is not a JSON object"),
        (b"hello\n", "line 1 is not a JSON object"),
        ('{"messages": []}\n'.encode("utf-16"), "UTF-16, not UTF-8; convert it: iconv"),
        (b'{"question": 1, "answer": 2}\n', "has answer, question; SFT reads messages"),
        (b'{"ask": 1, "reply": 2}\n', "For GRPO, name what scores the answers: --task or --reward"),
    ],
)
def test_a_file_without_training_data_is_refused_and_nothing_is_written(
    content: bytes, reason: str
) -> None:
    Path("data.jsonl").write_bytes(content)
    with pytest.raises(UsageError, match=reason):
        write_config(Path("data.jsonl"))
    assert not Path("configs").exists()


def test_parquet_without_the_columns_is_refused_with_their_names() -> None:
    pq.write_table(pa.table({"question": ["2 + 3?"]}), "raw.parquet")
    with pytest.raises(UsageError, match="has question; SFT reads messages"):
        write_config(Path("raw.parquet"))
    Path("torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"torn\.parquet"):
        write_config(Path("torn.parquet"))


def test_a_path_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(UsageError, match="is not a file"):
            write_config(path)


def test_tools_make_the_agent_loop_one_of_several_turns() -> None:
    Path("tools.py").write_text("@function_tool\ndef price(item: str) -> str: ...\n")
    write_config(sums_file(), task="questions", tools=Path("tools.py"))
    config = loaded("sums")
    rollout = "actor_rollout_ref.rollout"
    assert config.get(f"{rollout}.agent.default_agent_loop") == "tool_agent"
    assert config.get(f"{rollout}.multi_turn.function_tool_path") == "tools.py"


@pytest.mark.parametrize(
    ("text", "says"),
    [(None, "--tools tools.py: No such file"), ("def price(): ...", "has @function_tool")],
)
def test_a_file_without_tools_is_refused_and_nothing_is_written(
    text: str | None, says: str
) -> None:
    if text is not None:
        Path("tools.py").write_text(text)
    with pytest.raises(UsageError, match=says):
        write_config(sums_file(), task="questions", tools=Path("tools.py"))
    assert not Path("configs").exists()


def test_sft_has_no_tools() -> None:
    with pytest.raises(UsageError, match="SFT calls no tools"):
        write_config(jsonl_file("talk.jsonl", {"messages": MESSAGES}), tools=Path("tools.py"))


def test_a_description_says_what_the_data_trains_and_needs() -> None:
    said = {
        jsonl_file("a.jsonl", {"messages": MESSAGES}): "conversations: SFT",
        questions_file("b.csv"): "records with question, answer: GRPO; name a task, such as q",
        jsonl_file(
            "t.jsonl", CALL
        ): "records with query, tools, answers: GRPO; name a task, such as tool_calls, or",
        jsonl_file("c.jsonl", {"text": "2 + 3?"}): "records with text: GRPO; name a task, or",
        sums_file("d.parquet"): "rows for GRPO; without a task or reward, a function to adapt",
        rubric_file("e.parquet", use_contrastive=True): "rows with gold scores: GRPO",
    }
    for path, text in said.items():
        assert describe_data(path).startswith(text)


@pytest.mark.parametrize("name", ["none.jsonl", "torn.parquet", "notes.txt"])
def test_data_that_cannot_be_described_is_named(name: str) -> None:
    Path("torn.parquet").write_bytes(b"PAR1")
    Path("notes.txt").write_text("hello")
    with pytest.raises(UsageError, match=name):
        describe_data(Path(name))


@pytest.mark.parametrize(
    ("model", "env", "says"),
    [
        ("", {}, "Qwen/Qwen2.5-0.5B-Instruct is not on this disk, and http://127.0.0.1:9 cannot"),
        ("a/b", {"HF_HUB_OFFLINE": "1"}, "a/b is not on this disk, and HF_HUB_OFFLINE disables"),
        ("none", {}, "none does not exist; type the folder of a model"),
        ("here", {}, "here has no weights"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_described_with_what_to_type(
    model: str, env: dict[str, str], says: str
) -> None:
    Path("here").mkdir()
    Path("here/config.json").write_text("{}")
    closed = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": "cache"}
    assert describe_model(model, {**closed, **env}).startswith(says)
