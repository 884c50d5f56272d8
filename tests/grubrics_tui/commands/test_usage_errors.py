"""A wrong command line is one line on stderr, exit code 2, and does nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from engine.base.errors import UsageError
from grubrics_tui.app.app import GrubricsApp
from grubrics_tui.cli import build_command, main
from grubrics_tui.commands.shared.command import Command, Task, commands
from tests.grubrics_tui.conftest import Call
from tests.grubrics_tui.sample_run import SampleRun
from tests.hostile_text import ALL, harmful

pytestmark = pytest.mark.long

COMMANDS = commands()
LONG = "x" * 10_000
HOSTILE = ALL.replace("\0", "").replace("=", "") + " \udcff"
Refused = Callable[..., str]


@pytest.fixture
def refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Refused:
    """Return a function that runs the program and returns the line of its usage error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["grubrics-tui", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert (ended.value.code, out) == (2, ""), words
        assert err.startswith("error: ") and err.count("\n") == 1 and len(err) < 1000, err
        assert not harmful(err, allowed="\n"), err
        return err

    return run


def _params(command: str, kind: str) -> list[Any]:
    built = build_command(command, COMMANDS[command])
    return [param for param in built.params if param.param_type_name == kind]


def _arguments(command: str) -> list[str]:
    """As many arguments as the command can take without a list."""
    return ["a"] * len(_params(command, "argument"))


@pytest.mark.sample(12)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_of_any_command(command: str, refused: Refused) -> None:
    for name in ("--bogus", "-x", f"--{HOSTILE}", f"-{HOSTILE}", f"--{LONG}", "--bogus=1"):
        assert refused(command, name).startswith(f"error: {command}: option '{name[:2]}")
    for param in _params(command, "option"):
        error = refused(command, param.opts[0][:-1], "1")
        assert f"did you mean '{param.opts[0]}'?" in error or param.opts[0] == "--as", error


@pytest.mark.sample(12)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_without_its_value(command: str, refused: Refused) -> None:
    for param in _params(command, "option"):
        name = param.opts[0]
        if param.is_flag:
            assert f"{name} takes no value" in refused(command, f"{name}={HOSTILE}")
            continue
        needs = f"error: {command}: {name} needs a value: {name} {param.metavar}"
        assert refused(command, name) == f"{needs}\n"
        for word in ("--help", "--json", f"--{HOSTILE}", f"--{LONG}", "--"):
            assert refused(command, name, word).startswith(needs)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_value_of_the_wrong_type(command: str, refused: Refused) -> None:
    for param in _params(command, "option"):
        if param.type.name in ("int", "integer", "float"):
            for value in ("abc", HOSTILE, LONG):
                error = refused(command, *_arguments(command), param.opts[0], value)
                assert error.startswith(f"error: {command}: {param.opts[0]}: '{value[0]}")


@pytest.mark.parametrize("command", COMMANDS)
def test_too_many_or_too_few_arguments(command: str, refused: Refused) -> None:
    arguments = _params(command, "argument")
    if all(argument.nargs == 1 for argument in arguments):
        for word in ("zzz", HOSTILE, LONG):
            error = refused(command, *_arguments(command), word)
            assert f"{command}: unexpected argument '{word[0]}" in error
        assert "did you mean '--json'?" in refused(command, *_arguments(command), "json")
    if any(argument.required for argument in arguments):
        assert f"{command}: argument {arguments[0].metavar} is missing" in refused(command)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["shw"], "did you mean 'show'?"),
        ([HOSTILE], "command '"),
        ([LONG], "command 'xxx"),
        (["--rusn", "x"], "did you mean '--runs'?"),
        (["-h"], "did you mean '--help'?"),
        (["--runs"], "--runs needs a value"),
        (["--runs", "--help"], "--runs needs a value: --runs DIR, not the option --help"),
        (["--config", "--read-only"], "--config needs a value"),
        (["--runs", "x", "settings"], "--runs: grubrics-tui settings reads no runs"),
        (["--config", "x", "queue"], "--config"),
        (["--read-only", "queue"], "--read-only"),
        (["--read-only=1"], "--read-only takes no value"),
        (["--config", LONG], "File name too long"),
        (["check", "grpo_tiny", LONG], "invalid override"),
        (["launch", "grpo_tiny", "--name", LONG], "run name"),
        (["config", "grpo_tiny", "--origin", "fil"], "did you mean 'file'?"),
        (["estimate", "grpo_tiny", "--gpu-memory", LONG], "--gpu-memory"),
        (["pipeline", "pipeline_tiny", "--from", "gpro"], "did you mean 'grpo'?"),
        (["pipeline", "pipeline_tiny", "--skip", LONG], "stage 'xxx"),
        (["pipeline", "pipeline_tiny", "--status", "--wait"], "--status starts nothing"),
        (["pipeline", "grpo_tiny"], "is a config, not a pipeline"),
        (["--config", "x", "lr=1"], "overrides follow a command: grubrics-tui launch x lr=1"),
        (["lr=1"], "overrides follow a command: grubrics-tui launch CONFIG lr=1"),
        (["launch", "grpo_tiny", "--steps", "5"], "KEY=VALUE: trainer.total_training_steps"),
        (["check", "grpo_tiny", "--val-tasks=x"], "KEY=VALUE: data.val_files"),
        (["launch", "grpo_tiny", "--seed", "5"], "did you mean '--seeds'?"),
        (["ablate", "grpo_tiny"], "nothing to vary in 'grpo_tiny': add --knob KEY=V1,V2"),
    ],
)
def test_the_program_itself(words: list[str], expected: str, refused: Refused) -> None:
    assert expected in refused(*words)


def test_without_a_terminal_the_bare_program_trains_nothing_and_says_what_to_type(
    refused: Refused,
) -> None:
    line = refused()
    assert "grubrics-tui launch CONFIG --wait" in line and "--config CONFIG" in line
    assert not Path("runs").exists()


def test_a_value_after_an_equals_sign_and_words_after_two_dashes(refused: Refused) -> None:
    assert "run '--json' does not exist" in refused("show", "--", "--json")
    assert "run 'x' does not exist" in refused("show", "x", "--runs=--json")


def test_a_word_after_an_option_of_another_package_is_parsed_as_click_does() -> None:
    """An option may take two values or be counted."""

    def paint(
        size: Annotated[tuple[int, int], typer.Option("--size")],
        loud: Annotated[int, typer.Option("--loud", count=True)] = 0,
    ) -> None:
        assert (size, loud) == ((2, 3), 2)

    build_command("paint", Command(paint, Task.KEEP)).main(
        ["--loud", "--size", "2", "3", "--loud"], standalone_mode=False
    )


def test_a_long_secret_is_masked_before_it_is_cut(refused: Refused) -> None:
    secret = "sk-proj-" + "0a1b2c3d4e5f6a7b" * 30
    for words in ([secret], [f"--{secret}"], ["show", secret], ["show", "x", secret]):
        assert secret[-20:] not in refused(*words)


def test_options_after_the_program_are_those_of_the_program(call: Call, tmp_path: Path) -> None:
    for words in (("sh", "x.sh", "--lr", "3"), ("--", "sh", "x.sh", "--lr", "3")):
        code, output = call("run", "--dry-run", "--runs", str(tmp_path), *words)
        assert (code, output.splitlines()[0]) == (0, "$ sh x.sh --lr 3")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--install-completion",), "did you mean 'completion ...'?"),
        (("runs", "--runs", "a-file"), "a-file is a file, not a directory of runs"),
        (("run", "--runs", "a-file", "--", "true"), "a-file is a file"),
        (("runs", "--runs", "here/one"), "is a run; name the directory that holds it: here"),
        (("runs", "--runs", "~/one"), "is a run; name the directory that holds it"),
        (("runs", "--runs", "here", "--filter", "nokey:x"), "has a config key 'nokey'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_was_meant_is_named(
    words: tuple[str, ...], told: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a-file").touch()
    SampleRun.create(Path("here"), "one").say("finished")
    monkeypatch.setenv("HOME", str(Path("here").resolve()))
    assert told in refused(*words)


def test_characters_that_the_locale_lacks_are_refused_not_dropped(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "ascii")
    SampleRun.create(Path("runs"), "one").say("finished")
    assert "Set LC_ALL=C.UTF-8" in refused("note", "one", "s\udcc3\udcbc")


def test_a_dumb_terminal_gets_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(UsageError, match="TERM=dumb"):
        GrubricsApp(tmp_path, "").run_to_end()
