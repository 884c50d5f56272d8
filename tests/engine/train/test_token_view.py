"""A row as the trainer renders it: which tokens are trained, and what a call of a tool becomes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.base.parquet import pa, pq
from engine.checks.token_view import NoModelError, TokenView, read_token_view
from engine.config.load import Config, load_config
from engine.train.tiny_model import CHAT_TEMPLATE
from engine.train.token_view import render
from tests.engine.train.conftest import SmallWorld
from tests.paths import CONFIGS

MULTI_TURN = "actor_rollout_ref.rollout.multi_turn"
PRICE = '''
from verl.tools.function_tool import function_tool


@function_tool
def price(item: str, days: int) -> str:
    """Look up a price.

    Args:
        item: Name of the item.
        days: How many days.
    """
    raise RuntimeError("called")
'''


def grpo(world: SmallWorld, *overrides: str) -> Config:
    files = (
        f"data.train_files={world.train}",
        f"actor_rollout_ref.model.path={world.model}",
        "data.max_prompt_length=400",
        "data.max_response_length=200",
        "reward.custom_reward_function.path=task://questions",
    )
    return load_config(str(CONFIGS / "grpo_tiny.yaml"), (*files, *overrides), {})


def with_tools(world: SmallWorld, tools: Path, *overrides: str) -> Config:
    return grpo(
        world,
        "actor_rollout_ref.rollout.agent.default_agent_loop=tool_agent",
        f"{MULTI_TURN}.function_tool_path={tools}",
        *overrides,
    )


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """verl keeps the tools of a process by their name, so that all tests share the file."""
    file = tmp_path_factory.mktemp("tools") / "tools.py"
    file.write_text(PRICE)
    return file


def parts(view: TokenView) -> list[tuple[str, bool, str]]:
    return [(part.role, part.trained, part.text) for part in view.parts]


def test_the_right_answer_is_trained_and_the_prompt_is_not(world: SmallWorld) -> None:
    assert parts(render(grpo(world), 1, "train")) == [
        (
            "prompt",
            False,
            "<|im_start|>user\nWhat is 0 + 1?<|im_end|>\n<|im_start|>assistant\n",
        ),
        ("model", True, "\\boxed{1}<|im_end|>"),
    ]


def test_only_the_answers_of_a_conversation_are_trained(world: SmallWorld) -> None:
    overrides = (f"data.train_file={world.conversations}", f"model.path={world.model}")
    config = load_config(str(CONFIGS / "sft_tiny.yaml"), overrides, {})
    trained = [part.text for part in render(config, 1, "train").parts if part.trained]
    assert trained == ["1<|im_end|>\n"]


def test_a_call_is_written_read_and_answered_without_calling_the_tool(
    world: SmallWorld, tools: Path
) -> None:
    template = f"actor_rollout_ref.model.custom_chat_template={json.dumps(CHAT_TEMPLATE)}"
    view = render(with_tools(world, tools, template), 0, "train")
    assert view.tools is not None
    use = view.tools
    assert (use.names, use.written, use.listed, use.outcome, use.answered) == (
        ["price"],
        True,
        True,
        "ok",
        True,
    )
    assert parts(view)[1:] == [
        (
            "model",
            True,
            '<tool_call>{"name": "price", "arguments": {"item": "text", "days": 1}}</tool_call>'
            "<|im_end|>",
        ),
        (
            "tools",
            False,
            "\n<|im_start|>tool\n(reply of price)<|im_end|>\n<|im_start|>assistant\n",
        ),
        ("model", True, "\\boxed{0}<|im_end|>"),
    ]


def test_a_template_that_lists_no_tools_and_writes_no_calls_is_noticed(
    world: SmallWorld, tools: Path
) -> None:
    use = render(with_tools(world, tools), 0, "train").tools
    assert use is not None
    assert (use.written, use.listed, use.outcome, use.answered) == (False, False, "ok", True)


def test_a_form_that_the_parser_does_not_read_is_noticed(world: SmallWorld, tools: Path) -> None:
    use = render(with_tools(world, tools, f"{MULTI_TURN}.format=gpt-oss"), 0, "train").tools
    assert use is not None and use.outcome is None


def test_the_tokens_of_a_part_are_its_text(world: SmallWorld) -> None:
    for part in render(grpo(world), 0, "train").parts:
        assert "".join(token.text for token in part.tokens) == part.text


def test_it_goes_through_a_process_of_its_own(world: SmallWorld) -> None:
    config = grpo(world)
    assert read_token_view(config, 2) == render(config, 2, "train")


def test_a_row_that_is_not_there_is_refused_with_the_last_one(world: SmallWorld) -> None:
    with pytest.raises(UsageError, match=r"has no row 12; its rows are 0 to 11"):
        render(grpo(world), 12, "train")


def test_tools_that_do_not_load_are_refused_with_the_reason(
    world: SmallWorld, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import nosuchmodule\n")
    with pytest.raises(UsageError, match="No module named 'nosuchmodule'"):
        render(with_tools(world, broken), 0, "train")


@pytest.mark.parametrize("code", ["sys.exit(0)", "raise ValueError('first\\nsecond')", "def f(:"])
def test_tools_that_end_their_module_are_refused(
    world: SmallWorld, tmp_path: Path, code: str
) -> None:
    broken = tmp_path / f"broken_{len(code)}.py"
    broken.write_text(f"import sys\n{code}\n")
    reason = {"s": "SystemExit: 0", "r": "ValueError: first second", "d": r"\(line 2\)"}[code[0]]
    with pytest.raises(UsageError, match=f"the tools cannot be loaded: .*{reason}"):
        render(with_tools(world, broken), 0, "train")


@pytest.mark.thorough
def test_what_tools_print_and_start_when_imported_changes_nothing(
    world: SmallWorld, tmp_path: Path
) -> None:
    noisy = tmp_path / "noisy.py"
    start = (
        "import os, threading",
        "print('{}', end='', flush=True)",
        "os.write(1, b'loud')",
        "threading.Thread(target=threading.Event().wait).start()",
    )
    noisy.write_text("\n".join((*start, PRICE)))
    tools = read_token_view(with_tools(world, noisy)).tools
    assert tools is not None and tools.names == ["price"]


@pytest.mark.thorough
def test_tools_that_end_the_process_are_refused(world: SmallWorld, tmp_path: Path) -> None:
    quitting = tmp_path / "quitting.py"
    quitting.write_text("import os\nos._exit(0)\n")
    with pytest.raises(UsageError, match="ended with exit code 0"):
        read_token_view(with_tools(world, quitting))


def test_a_model_that_is_not_on_the_disk_is_refused_with_its_download(world: SmallWorld) -> None:
    config = grpo(world, "actor_rollout_ref.model.path=nobody/nothing")
    with pytest.raises(NoModelError, match="Download it: grubrics-tui model fetch nobody/nothing"):
        read_token_view(config)


def test_without_verl_the_package_to_install_is_named(
    world: SmallWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])
    monkeypatch.delitem(sys.modules, "verl", raising=False)
    with pytest.raises(UsageError, match=r"pip install .*\[train\]"):
        read_token_view(grpo(world))


def write_row(path: Path, **columns: Any) -> str:
    row = {"data_source": "test", "reward_model": {"ground_truth": "3"}, **columns}
    pq.write_table(pa.Table.from_pylist([row]), path)
    return f"data.train_files={path}"


def test_a_row_restricts_its_tools(world: SmallWorld, tools: Path, tmp_path: Path) -> None:
    prompt = [{"role": "user", "content": "What?"}]
    for selection in (["price"], ["cost"]):
        extra = {"tool_selection": selection}
        file = write_row(tmp_path / "rows.parquet", prompt=prompt, extra_info=extra)
        config = with_tools(world, tools, file)
        if selection == ["price"]:
            assert render(config, 0, "train").tools is not None
            continue
        with pytest.raises(UsageError, match="names no tool: cost; there are price"):
            render(config, 0, "train")


def test_the_prompt_is_read_from_its_column(world: SmallWorld, tmp_path: Path) -> None:
    columns = {"question": [{"role": "user", "content": "Why?"}], "prompt": "text"}
    file = write_row(tmp_path / "rows.parquet", **columns)
    view = render(grpo(world, file, "data.prompt_key=question"), 0, "train")
    assert "Why?" in view.parts[0].text
    with pytest.raises(UsageError, match="prompt of row 0 is no list of messages"):
        render(grpo(world, file), 0, "train")


def test_a_template_that_refuses_a_row_is_named(world: SmallWorld) -> None:
    template = "{{ raise_exception('no users') }}"
    config = grpo(world, f'actor_rollout_ref.model.custom_chat_template="{template}"')
    with pytest.raises(UsageError, match="refuses row 0: no users"):
        render(config, 0, "train")


def test_a_file_without_tools_has_none(world: SmallWorld, tmp_path: Path) -> None:
    empty = tmp_path / "empty.py"
    empty.write_text("# function_tool is not used\n")
    use = render(with_tools(world, empty), 0, "train").tools
    assert use is not None and use.names == []


def test_a_form_that_verl_does_not_have_is_named_with_its_key(
    world: SmallWorld, tools: Path
) -> None:
    with pytest.raises(UsageError, match=f"{MULTI_TURN}.format=hermess: verl reads no such form"):
        render(with_tools(world, tools, f"{MULTI_TURN}.format=hermess"), 0, "train")
