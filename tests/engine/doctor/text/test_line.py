"""What stands before and around the words of a line is taken away, and kept where it tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.doctor.text.line import frame, read_line
from engine.doctor.text.wording import is_code, is_conversation, is_prose


@pytest.mark.parametrize(
    ("raw", "source", "level", "text"),
    [
        ("ValueError: x", "", "", "ValueError: x"),
        (
            "\x1b[36m(WorkerDict pid=12, ip=10.0.0.1)\x1b[0m hi there",
            "WorkerDict pid=12",
            "",
            "hi there",
        ),
        ("[36m(main_task pid=7)[0m  indented", "main_task pid=7", "", " indented"),
        ('[rank3]:   File "a.py"', "rank3", "", '  File "a.py"'),
        ("[rank: 0] Seed set", "rank: 0", "", "Seed set"),
        ("2025-01-02 03:04:05,678 - judge - ERROR - no", "", "ERROR", "no"),
        ('ERROR 07-01 09:41:21 [core.py:888]   File "v.py"', "", "ERROR", '  File "v.py"'),
        ("[2025-03-02 11:55:50,730 E 4 5] (raylet) m.cc:1: full", "", "ERROR", "m.cc:1: full"),
        ("W1121 01:05:48.558000 25 torch/x.py:396] odd", "", "WARNING", "odd"),
        ("[rank1]:[E614 02:07:50.93 ProcessGroupNCCL.cpp:629] bad", "rank1", "ERROR", "bad"),
        ("Aug 17 18:42:18 box vllm[80]: (APIServer pid=8) up", "APIServer pid=8", "", "up"),
        ("worker-2  | RuntimeError: y", "worker-2", "", "RuntimeError: y"),
        ('node-07:   File "a.py"', "node-07", "", '  File "a.py"'),
        ("10.0.0.7: kit.OddError: x", "10.0.0.7", "", "kit.OddError: x"),
        (
            "stderr: Traceback (most recent call last):",
            "stderr",
            "",
            "Traceback (most recent call last):",
        ),
        ("epoch 7: all is well", "", "", "epoch 7: all is well"),
        ("kit.OddError: OtherError", "", "", "kit.OddError: OtherError"),
        ("Warning: libx.so: cannot open", "", "WARNING", "libx.so: cannot open"),
        ('    |   File "a.py", line 1, in f', "", "", '  File "a.py", line 1, in f'),
        ("[rank1]:   | ExceptionGroup: two", "rank1", "", "ExceptionGroup: two"),
        ("2:   | KeyError: 'x'", "2", "", "KeyError: 'x'"),
        ("    (raylet) 2 workers", "raylet", "", "2 workers"),
        ("    (raylets) in prose", "", "", "    (raylets) in prose"),
        ("  | a cell | of a table |", "", "", "  | a cell | of a table |"),
    ],
)
def test_a_line_as_it_is_read(raw: str, source: str, level: str, text: str) -> None:
    line = read_line(raw.encode())
    assert (line.source, line.level, line.text) == (source, level, text)


@given(st.binary(max_size=400))
def test_any_bytes_make_a_line_without_colors_or_nul(raw: bytes) -> None:
    text = read_line(raw).text
    assert "\x00" not in text


@pytest.mark.parametrize(
    "text",
    [
        '    raise ValueError("no")',
        "    from trl import GRPOConfig",
        "        ^^^^^^^^^",
        "---> 51     raise Missing()",
        " 'optim': {'lr': 1e-6},",
        '  "prompt_key": "prompt",',
        '  File "/a/b.py", line 3, in run',
        '  warnings.warn("no GPU is seen, out of memory may follow")',
        "{'object': 'chat.completion', 'id': 'a1'}",
    ],
)
def test_program_text_and_printed_configs_are_no_statements(text: str) -> None:
    assert is_code(text)


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: no",
        "  exitcode  : -9 (pid: 3)",
        "Killed",
        "{'object': 'error', 'message': 'too long', 'code': 400}",
        "{'type': 'invalid_request_error', 'message': 'too long'}",
    ],
)
def test_what_programs_say_is_no_program_text(text: str) -> None:
    assert not is_code(text)


def test_a_sentence_before_a_match_is_prose_unless_it_speaks_of_errors() -> None:
    assert is_prose("user: why does my little program print '")
    assert not is_prose("the program failed with an error that says ")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('  File "/x/vllm/core.py", line 7, in run', "/x/vllm/core.py:run"),
        (
            "File ~/env/deepspeed/ops/builder.py:51, in installed(name)",
            "~/env/deepspeed/ops/builder.py:installed",
        ),
        ("/w/library/train.py:442 in train", "/w/library/train.py:train"),
        ("loss.backward()", None),
    ],
)
def test_frames(text: str, name: str | None) -> None:
    assert frame(text) == name


def test_a_level_behind_a_loggers_name_or_a_torch_source_file_is_read() -> None:
    assert read_line(b"LiteLLM:WARNING: utils.py:501 - slow").level == "WARNING"
    assert read_line(b"[W socket.cpp:601] [c10d] not yet").level == "WARNING"
    assert read_line(b"2025-04-01:12:00:01,021 WARNING  [x] no SHA").level == "WARNING"


def test_help_texts_and_tables_show_text_that_tells_of_nothing() -> None:
    assert is_code("  --on_oom       what to do with torch.cuda.OutOfMemoryError")
    assert is_code("Why was it │ OOMKilled means that the │ 0.50 │")


def test_who_speaks_of_himself_or_quotes_is_no_program() -> None:
    assert is_conversation("My script says RuntimeError: CUDA out of memory. How can I fix this?")
    assert is_conversation("Model answer: the kernel prints Out of memory: Killed process 1")
    assert not is_conversation("RuntimeError: CUDA out of memory. Tried to allocate 2 GiB")
