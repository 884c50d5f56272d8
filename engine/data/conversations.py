"""SFT conversations of the files that people have: messages of any usual form, or a question and
what answers it."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.records import SUFFIXES, Record, read_records
from engine.tasks.rubrics import Message
from engine.tasks.task import RecordError

Conversation = list[Message]

COLUMNS = ("messages", "conversations", "conversation")
"""Where a record holds a conversation; a list of messages in another column is found, too."""
_RESPONSES = ("response", "completion", "output", "chosen")
_INSTRUCTION = "instruction"
_APPLIED = ("prompt", "question", "query", "problem", "input")
"""What an instruction is applied to, the most likely first."""
CONTEXT = "context"
_SYSTEM = ("system", "system_prompt")
FORMS = (
    "messages (role and content), conversations (from and value), or prompt and response, "
    "instruction and output"
)
"""What a record of SFT has."""

_ROLE_KEYS, _CONTENT_KEYS, _CALL_KEYS = ("role", "from"), ("content", "value"), ("tool_calls",)
MESSAGE_FIELDS = {
    *(*_ROLE_KEYS, *_CONTENT_KEYS, *_CALL_KEYS, "function_call", "tool_call_id", "name")
}
"""The fields of a message that are read, or that only repeat what others say."""
_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "function_call": "assistant",
    "observation": "tool",
    "function": "tool",
    "function_response": "tool",
}
"""The words of chat templates for the roles of other tools."""


def read_conversations(path: Path) -> list[Conversation]:
    """The conversations of a file, each ending with a message of the assistant.

    UsageError names file, line (or row, from 0) and fault.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; prepare the SFT data first")
    conversations = []
    for number, line in read_lines(path):
        try:
            conversations.append(parse_conversation(jsonl.parse_line(line)))
        except RecordError as error:
            raise UsageError(f"{path}:{number}: {error}") from error
    return conversations


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a JSONL file that are not blank, from 1; the records of another file as such
    lines, with the numbers of ``read_records``. UsageError for a file that cannot be read."""
    if path.suffix in SUFFIXES and path.suffix != ".jsonl":
        for number, record in read_records(path):
            yield number, json.dumps(record, default=str).encode()
        return
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            if line.strip():
                yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


def first_record(path: Path) -> Record:
    """The first record of a file; empty for one that has none or whose first line is torn."""
    return next((jsonl.parse_line(line) or {} for _, line in islice(read_lines(path), 1)), {})


def holds_conversations(record: Record) -> bool:
    """Whether SFT can train on records with these columns: rows of GRPO have a reward model."""
    if "reward_model" in record:
        return False
    return find_messages(record) is not None or bool(_prompt_columns(record) and _response(record))


def find_messages(record: Record) -> Any:
    """The list of messages of a record, in whatever column; None for none."""
    named = next((record[name] for name in COLUMNS if name in record), None)
    if named is not None or (_prompt_columns(record) and _response(record)):
        return named
    return next((value for value in record.values() if _is_messages(value)), None)


def parse_conversation(record: Record | None) -> Conversation:
    """The conversation of a record. Tool calls become text, as Hermes and Qwen write them.

    RecordError if SFT cannot train on it.
    """
    if record is None:
        raise RecordError("not a JSON object")
    given = find_messages(record)
    if given is None:
        given = _of_pair(record)
    if not isinstance(given, list) or not given:
        raise RecordError(f"the list of messages is {'empty' if given == [] else 'not a list'}")
    system = next((text for name in _SYSTEM if isinstance(text := record.get(name), str)), "")
    if system.strip() and _role(given[0]) != "system":
        given = [{"role": "system", "content": system}, *given]
    messages = [_message(message) for message in given]
    if messages[0]["role"] == "system" and not messages[0]["content"].strip():
        messages = messages[1:]
    _require_trainable(messages)
    return messages


def join_instruction(record: Record, named: Sequence[str] = ()) -> Record:
    """Alpaca's form: an instruction and what it is applied to are one question, in the column of
    the latter; in Dolly's, that is a context, and the question stays the instruction. Columns that
    are ``named`` stay as they are."""
    instruction = record.get(_INSTRUCTION)
    columns = [name for name in (*_APPLIED, CONTEXT) if name in record and name not in named]
    if not columns or not isinstance(instruction, str) or _INSTRUCTION in named:
        return record
    text = record[columns[0]] or ""
    if not isinstance(text, str):
        return record
    rest = {name: value for name, value in record.items() if name not in (_INSTRUCTION, columns[0])}
    kept = _INSTRUCTION if columns[0] == CONTEXT else columns[0]
    return {kept: _join(instruction, text), **rest}


def _join(first: str, second: str) -> str:
    """Both texts; only the second one if it has the first as lines of its own."""
    if not second.strip():
        return first
    return second if f"\n{first.strip()}\n" in f"\n{second}\n" else f"{first}\n\n{second}"


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and _role(value[0]) is not None


def _role(message: Any) -> str | None:
    """The role of a message in the words of chat templates; None for what is no message."""
    if not isinstance(message, Mapping):
        return None
    role = next((message[key] for key in _ROLE_KEYS if message.get(key)), None)
    has_text = any(key in message for key in (*_CONTENT_KEYS, *_CALL_KEYS, "function_call"))
    word = str(role).lower()
    return _ROLES.get(word, word) if role and has_text else None


def _prompt_columns(record: Record) -> list[str]:
    return [name for name in (_INSTRUCTION, *_APPLIED) if name in record]


def _response(record: Record) -> str | None:
    return next((name for name in _RESPONSES if name in record), None)


def _of_pair(record: Record) -> list[Any]:
    """A prompt and its response, each as text or messages, as one conversation."""
    column = _response(record)
    joined = join_instruction(record, [CONTEXT])
    prompts = [name for name in _prompt_columns(joined) if joined[name]]
    if column is None or not prompts:
        missing = "prompt" if column is not None else "messages"
        has = ", ".join(map(str, list(record)[:6])) or "nothing"
        raise RecordError(f"no {missing} (it has {has}); SFT reads {FORMS}")
    prompt, response = joined[prompts[0]], record[column]
    if isinstance(prompt, str):
        context = record.get(CONTEXT)
        prompt = _join(prompt, context) if isinstance(context, str) else prompt
        prompt = [*_past_turns(record.get("history")), {"role": "user", "content": prompt}]
    if not isinstance(response, list):
        response = [{"role": "assistant", "content": response}]
    elif _role(next(iter(response), None)) in ("user", "system"):  # chosen, with its prompt
        prompt = []
    return [*prompt, *response] if isinstance(prompt, list) else []


def _past_turns(history: Any) -> Iterator[dict[str, Any]]:
    """The turns before a question, as pairs of texts."""
    for turn in history if isinstance(history, list) else ():
        if isinstance(turn, Sequence) and len(turn) == 2:
            yield {"role": "user", "content": turn[0]}
            yield {"role": "assistant", "content": turn[1]}


def _message(message: Any) -> Message:
    role = _role(message)
    if role is None:
        raise RecordError("a message without role or content")
    content = next((message[key] for key in _CONTENT_KEYS if message.get(key) is not None), None)
    calls = [_CALL.format(json.dumps(call, ensure_ascii=False)) for call in _calls(message)]
    if isinstance(content, list) and all(isinstance(_part(part), str) for part in content):
        content = "".join(map(_part, content))
    if content is not None and not isinstance(content, str):
        kind = type(content).__name__
        raise RecordError(f"a message whose content is a {kind}, and SFT reads text only")
    if not content and not calls and role != "system":
        raise RecordError("a message without role or content")
    if message.get("from") == "function_call":  # of ShareGPT, the content is the call
        content = _CALL.format(content)
    return {"role": role, "content": "\n".join(filter(None, [content, *calls]))}


_CALL = "<tool_call>\n{}\n</tool_call>"
"""As Hermes and Qwen write a tool call."""


def _part(part: Any) -> Any:
    """The text of a part of a content; None for an image."""
    return part.get("text") if isinstance(part, Mapping) else None


def _calls(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The tool calls of a message, in OpenAI's form or its former one."""
    listed = message.get("tool_calls") or [message.get("function_call")]
    for call in listed if isinstance(listed, list) else ():
        function = call.get("function", call) if isinstance(call, Mapping) else None
        if isinstance(function, Mapping) and function.get("name"):
            arguments = function.get("arguments")
            if isinstance(arguments, str):
                arguments = jsonl.parse_line(arguments.encode()) or arguments
            yield {"name": function["name"], "arguments": _filled(arguments)}


def _filled(arguments: Any) -> Any:
    """Without null: a parquet file has an argument in all calls if one of them has it."""
    if not isinstance(arguments, Mapping):
        return arguments or {}
    return {name: value for name, value in arguments.items() if value is not None}


def _require_trainable(messages: Conversation) -> None:
    if not messages:
        raise RecordError("no message but that of the system")
    last = messages[-1]
    if not last["content"].strip():
        raise RecordError("the last message is blank: nothing to train on")
    if last["role"] != "assistant":
        raise RecordError(
            f"the last message is by '{last['role']}', and SFT trains on the assistant's last "
            "message"
        )
