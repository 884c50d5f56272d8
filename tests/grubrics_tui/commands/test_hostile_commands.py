"""Whatever a run's files or a person's words say, a command prints it as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from grubrics_tui.cli import main
from grubrics_tui.commands.shared.command import commands
from tests.grubrics_tui.hostile_world import FOLDER, external_logs, make_hostile_world
from tests.grubrics_tui.world import standing_clock
from tests.hostile_text import ALL, HOSTILE, MARKUP, harmful

pytestmark = pytest.mark.waits

WORDS = ALL.replace("\0", "") + " \udcff"
OVERRIDE = f"grubrics.description={json.dumps(ALL)}"
"""As much of it as a command line can hold."""
CONFIG_NAME = f"{FOLDER[:60]}"
HERE = "day/" + FOLDER

COMMANDS: dict[str, list[list[str]]] = {
    "config": [["small"], ["small", OVERRIDE, "--unused"], ["broken"], ["grpo-day"]],
    "check": [["small"], ["small", OVERRIDE], ["small", WORDS], ["broken"], [CONFIG_NAME]],
    "launch": [
        ["small", OVERRIDE, "--dry-run"],
        ["small", WORDS, "--dry-run"],
        ["small", "--name", WORDS],
        ["small", "--curriculum", WORDS, "--dry-run"],
        ["small", "--curriculum", "1:0:1", "--generate-data", "--dry-run"],
    ],
    "run": [
        ["--dry-run", "--", "sh", "-c", WORDS],
        ["--dry-run", "--cwd", WORDS, "--", WORDS],
        ["--name", WORDS, "--", "true"],
    ],
    "adopt": [
        [WORDS],
        [HERE, "--dry-run"],
        ["day/night.log", "--dry-run", "--metrics", WORDS],
        ["1", "--log", WORDS],
    ],
    "audit": [
        ["small"],
        ["grpo-day"],
        [WORDS],
        ["grpo-day", WORDS],
        ["hostile-reward"],
        ["hostile-reward", "--right", f"{WORDS}{{}}"],
    ],
    "tokens": [
        ["small"],
        ["small", OVERRIDE],
        ["grpo-day"],
        ["small", "--validation", "--each"],
        [WORDS],
        ["small", WORDS],
    ],
    "completion": [["bash"], [WORDS]],
    "prepare": [
        ["train.jsonl"],
        ["train.jsonl", "--skip-unusable"],
        ["train.jsonl", "--task", WORDS, "--out", WORDS],
        ["train.jsonl", "--column", WORDS],
        ["train.jsonl", "--column", f"question={WORDS}"],
        [WORDS],
        [HERE],
        ["records.jsonl", "--out", "out"],
        ["records.jsonl", "--out", "out", "--skip-unusable"],
        ["records.jsonl", "--out", "out", "--skip-unusable", "--system", WORDS],
    ],
    "init": [
        ["train.jsonl"],
        ["train.jsonl", "--task", WORDS],
        ["train.jsonl", "--reward", WORDS],
        [HERE],
        [WORDS],
        ["train.jsonl", "--name", WORDS, "--model", WORDS],
    ],
    "import": [
        ["hostile.sh"],
        ["hostile.sh", "--dry-run"],
        ["hostile.sh", WORDS, "--out", WORDS],
        ["hostile.sh", WORDS, "--device", WORDS],
        ["hostile-aflow.yaml"],
        ["configs/broken.yaml"],
        [WORDS],
        [HERE],
    ],
    "estimate": [["small"], ["small", OVERRIDE], ["grpo-day"], [WORDS]],
    "diagnose": [["grpo-day"], [HERE], ["day/night.log"], [WORDS]],
    "judge-test": [["small"], ["grpo-day"], ["small", OVERRIDE], [WORDS], ["small", WORDS]],
    "fix": [["grpo-day", "--dry-run"], [WORDS]],
    "reproduce": [
        ["grpo-day", "--dry-run"],
        ["grpo-day", "--rescore"],
        ["grpo-day", "--rescore", "--step", "1"],
        [WORDS],
    ],
    "smoke-test": [["small", "--dry-run"], [WORDS, "--dry-run"]],
    "pipeline": [
        ["pipeline.yaml", "--dry-run"],
        ["pipeline.yaml", "--status"],
        ["pipeline.yaml", "--skip", WORDS],
        ["pipeline.yaml", "--from", WORDS],
        ["hostile-pipeline.yaml", "--dry-run"],
        ["configs/broken.yaml"],
        [HERE],
        [WORDS],
    ],
    "queue": [[]],
    "runs": [[], ["--filter", WORDS], ["--filter", "state:failed"], ["--filter", "[red]"]],
    "show": [["grpo-night"], ["grpo-day"], [WORDS]],
    "metrics": [["grpo-day"], ["grpo-day", *HOSTILE.values()], ["grpo-day", WORDS], [HERE]],
    "summarize": [
        ["grpo-day"],
        ["grpo-day", "--validation"],
        ["grpo-day", "records.jsonl", "--markdown"],
        ["records.jsonl", "--csv"],
        [HERE],
        [WORDS],
    ],
    "table": [
        ["grpo-day"],
        ["grpo-day", "sft-warmup", "--long"],
        ["grpo-day", "--markdown"],
        ["grpo-day", "--metric", WORDS],
        ["grpo-day", "--out", WORDS],
        [HERE],
        [WORDS],
    ],
    "watch": [["grpo-day"], ["sft-warmup"], [HERE], [WORDS], ["sft-warmup", "--as", WORDS]],
    "stop": [["grpo-day"], [WORDS]],
    "resume": [["grpo-day", "--dry-run"], ["grpo-day"], ["sft-warmup"], [WORDS]],
    "reap": [[]],
    "settings": [[]],
    "rollouts": [
        ["grpo-day"],
        ["grpo-day", "--search", WORDS],
        ["grpo-day", "--filter", WORDS],
        ["grpo-day", "--sort", WORDS],
        ["grpo-day", "--group", "1", "--across-steps"],
        [HERE],
    ],
    "compare": [
        ["grpo-day", "grpo-night"],
        ["grpo-day", "sft-warmup", "--metric", MARKUP],
        ["grpo-day", WORDS],
        ["grpo-day", "grpo-night", "--metric", WORDS, "--baseline", WORDS],
    ],
    "evaluate": [
        ["grpo-day", "--config", "small"],
        ["sft-warmup", "--baseline", WORDS, "--config", "small"],
        [WORDS, "--config", WORDS],
        [HERE, "--data", WORDS, "--config", "small"],
    ],
    "export": [
        ["grpo-day", "out"],
        ["grpo-day", WORDS],
        [WORDS, "out", "--dtype", WORDS],
        [HERE, "out"],
    ],
    "sweep": [["grpo-day"], ["sft-warmup"], ["grpo-day", "--data", WORDS], [WORDS]],
    "ablate": [
        ["small", "--dry-run", "--arm", f"x {OVERRIDE}"],
        ["small", "--dry-run", "--arm", WORDS],
        ["small", "--dry-run", "--knob", f"grubrics.description={WORDS}"],
        ["grpo-day", "--dry-run", "--knob", WORDS],
        [WORDS, "--dry-run"],
    ],
    "decide": [[WORDS, "--decision", WORDS, "--reason", WORDS, "--context", MARKUP]],
    "tag": [["grpo-day"], ["grpo-day", WORDS], ["grpo-day", WORDS, "--remove"], [WORDS, "x"]],
    "note": [["grpo-day"], ["grpo-day", WORDS], ["grpo-day", MARKUP * 90]],
    "entry": [["grpo-day"], ["grpo-day", "--title", WORDS], ["grpo-day", "--append"], [WORDS]],
    "report": [
        ["grpo-day", "sft-warmup", "--markdown", "-"],
        ["grpo-day", "--markdown", "-", "--pr"],
        ["grpo-day", "-o", WORDS],
        ["grpo-day", "-o", "out.html", "--metric", WORDS],
        ["grpo-day", "-o", "out.html", "--date", WORDS],
        [HERE, "-o", "out.html", "--svg", "charts"],
        ["external/night.log", "-o", "out.html"],
        [WORDS, "-o", "out.html"],
    ],
    "container": [
        ["small"],
        ["small", "--engine", "apptainer"],
        [WORDS],
        ["small", "--image", WORDS],
    ],
    "keys": [["list"], ["set", WORDS], ["unset", WORDS]],
    "model": [["fetch", WORDS], ["fetch", "a/b", "--to", WORDS], ["fetch", f"a/{ALL}"]],
    "package": [["grpo-day", "--force"], [WORDS], ["grpo-day", "--out", WORDS, "--force"]],
    "verify": [[WORDS], [HERE], ["day"], ["day/night.log"]],
    "prune": [["grpo-day", "--dry-run"], [WORDS], ["--keep", WORDS], ["--older", WORDS]],
    "archive": [[WORDS], ["sft-warmup"], ["sft-warmup", "--undo"]],
    "delete": [["grpo-day"], [WORDS], ["grpo-day", "--yes"]],
    "wandb": [
        ["ls"],
        ["ls", HERE],
        ["ls", WORDS],
        [WORDS],
        ["sync", "grpo-day"],
        ["sync", "--timeout", WORDS],
        ["clean", "--dry-run"],
        ["clean", WORDS, "--yes"],
    ],
}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with standing_clock(tmp_path):
        make_hostile_world()
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        settings = tmp_path / "config" / "grubrics-tui" / "settings.yaml"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps({"theme": ALL, "keys": {ALL: ALL}, ALL: 1}))
        yield


class Shell:
    """Runs commands in this process."""

    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capture = patch, capture

    def run(self, *words: str) -> str:
        """What a command printed, after a look at it: text, and no traceback."""
        self._patch.setattr("sys.argv", ["grubrics-tui", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capture.readouterr()
        assert ended.value.code in (0, 1, 2, None), words
        assert not harmful(out + err, allowed="\n\t"), words
        assert "Traceback" not in out + err.replace("Traceback (most recent call last)", "")
        assert ended.value.code != 2 or len(err.strip().splitlines()) >= 1, words
        return out


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def test_no_command_is_left_out() -> None:
    """``demo`` takes no text: it trains."""
    assert set(commands()) == {*COMMANDS, "demo"}


@pytest.mark.sample(14)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_text(command: str, world: None, shell: Shell) -> None:
    for words in COMMANDS[command]:
        shell.run(command, *words)
    for words in COMMANDS[command]:
        for line in shell.run(command, "--json", *words).splitlines():
            json.loads(line)


@pytest.mark.parametrize(
    "words",
    [[WORDS], ["--config", WORDS], [f"--{WORDS}"], ["show", f"-{WORDS}"], ["show", "x", WORDS]],
)
def test_a_wrong_command_line_is_printed_as_text(
    words: list[str], world: None, shell: Shell
) -> None:
    """``test_usage_errors`` has one of each kind for every command."""
    shell.run(*words)


def test_what_another_trainer_wrote_is_printed_as_text(world: None, shell: Shell) -> None:
    for kind, path in external_logs().items():
        for options in ([], ["--json"]):
            shell.run("watch", str(path), "--as", kind, *options)
            shell.run("metrics", str(path), *options)
            shell.run("metrics", str(path), MARKUP, ALL, *options)


def test_markup_is_printed_as_it_stands(world: None, shell: Shell) -> None:
    assert MARKUP in shell.run("note", "grpo-day")
    assert "[red]no color[/red]" in shell.run("show", "grpo-day")
    assert "[red]no color[/red]" in shell.run("rollouts", "grpo-day")
    assert MARKUP in shell.run("metrics", "grpo-day")
