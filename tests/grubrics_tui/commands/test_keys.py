"""``keys`` lists the project's credentials, and stores one in .env without ever showing it."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine.base.errors import UsageError
from engine.config.env_file import load_env_file, set_variable, unset_variable
from grubrics_tui.cli import app
from grubrics_tui.commands import keys as command
from tests.engine.checks.project import Project
from tests.grubrics_tui.conftest import Call

KEY, OTHER = "sk-proj-abcdefghij0123456789", "hf_zyxwvutsrq9876543210"
VARIABLES = ("HF_TOKEN", "OPENAI_API_KEY", "WANDB_API_KEY")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in (*VARIABLES, "NETRC"):
        monkeypatch.setenv(name, "")  # So that what a command sets is undone.
        monkeypatch.delenv(name)
    return tmp_path


def keys(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, ["keys", *words], input=stdin)


def refusal(*words: str, stdin: str = "") -> str:
    result = keys(*words, stdin=stdin)
    assert isinstance(result.exception, UsageError), result.output
    assert KEY not in f"{result.exception}{result.output}"
    return str(result.exception)


def typed(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Somebody at a terminal types ``value`` where it is asked for without an echo."""
    monkeypatch.setattr(command, "on_terminal", lambda: True)
    monkeypatch.setattr(command, "getpass", lambda question: value)


def test_the_list_says_where_each_variable_is_set_and_masks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path(".env").write_text(f"OPENAI_API_KEY={KEY}\nHF_TOKEN={OTHER}\nMY_API_KEY=abcdefgh12345\n")
    monkeypatch.setenv("HF_TOKEN", "hf_fromtheshell123456")
    load_env_file(environment := {"HF_TOKEN": "hf_fromtheshell123456"})
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = keys("--json")
    found = {each["name"]: each for each in json.loads(result.stdout)["variables"]}
    assert found["OPENAI_API_KEY"]["origin"] == ".env"
    assert found["OPENAI_API_KEY"]["purpose"] == "judge.provider=openai"
    assert found["HF_TOKEN"]["origin"] == "shell"
    assert found["HF_TOKEN"]["note"] == "the value in .env does not count"
    assert found["WANDB_API_KEY"]["origin"] is None
    assert found["MY_API_KEY"]["purpose"] == "not known to grubrics-tui"
    for text in (result.stdout, keys().stdout):
        assert not [value for value in environment.values() if value in text]


def test_a_login_of_another_program_counts(folder: Path) -> None:
    (folder / "hf").mkdir()
    (folder / "hf/token").write_text(OTHER)
    (folder / ".netrc").write_text(f"machine api.wandb.ai login user password {'a1' * 20}\n")
    value = json.loads(keys("--json").stdout)["variables"]
    origins = {each["name"]: each["origin"] for each in value}
    assert origins["HF_TOKEN"] == str(folder / "hf/token")
    assert origins["WANDB_API_KEY"] == str(folder / ".netrc")


@pytest.mark.row("V23")
def test_a_key_is_stored_with_consent_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    typed(monkeypatch, KEY)
    result = keys("set", "OPENAI_API_KEY", stdin="y\n")
    assert result.exit_code == 0, result.output
    assert f"OPENAI_API_KEY will be stored as plain text in {folder / '.env'}" in result.stdout
    assert f"in {folder / '.env'}? [y/N]" in result.stdout
    assert KEY not in result.output
    assert Path(".env").read_text() == f"OPENAI_API_KEY={KEY}\n"
    assert stat.S_IMODE(Path(".env").stat().st_mode) == 0o600


def test_without_consent_nothing_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, KEY)
    assert keys("set", "OPENAI_API_KEY", stdin="\n").exit_code == 1
    assert not Path(".env").exists()


def test_a_script_gives_the_value_on_stdin() -> None:
    assert keys("set", "HF_TOKEN", "--yes", stdin=f"{OTHER}\n").exit_code == 0
    assert Path(".env").read_text() == f"HF_TOKEN={OTHER}\n"
    assert "without a terminal, keys set takes the value from stdin" in refusal("set", "HF_TOKEN")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("set", "HF_TOKN", "--yes"), "did you mean HF_TOKEN?"),
        (("set", f"OPENAI_API_KEY={KEY}"), "give only the variable's name"),
        (("set", "OPENAI_API_KEY", KEY), "give only the variable's name"),
        (("set",), "name a variable: grubrics-tui keys set HF_TOKEN"),
        (("sett", "HF_TOKEN"), "did you mean 'set'?"),
        (("list", "HF_TOKEN"), "keys list takes no NAME"),
    ],
)
def test_a_wrong_call_is_one_line_that_repeats_no_key(
    words: tuple[str, ...], expected: str
) -> None:
    assert expected in refusal(*words)
    assert not Path(".env").exists()


@pytest.mark.parametrize("value", ["", f"{KEY} x", f"{KEY}\x07", f"{KEY}é"])
def test_a_value_that_no_server_takes_is_refused(value: str) -> None:
    assert "nothing was stored" in refusal("set", "OPENAI_API_KEY", "--yes", stdin=value)
    assert not Path(".env").exists()


def test_an_env_file_that_others_can_write_is_not_changed() -> None:
    Path(".env").touch()
    Path(".env").chmod(0o666)
    assert ".env is writable by everybody and was not changed" in refusal(
        "set", "HF_TOKEN", "--yes", stdin=OTHER
    )


def test_another_value_of_the_shell_and_a_file_for_git_are_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    monkeypatch.setenv("HF_TOKEN", "hf_fromtheshell123456")
    warned = keys("set", "HF_TOKEN", "--yes", stdin=OTHER).stderr
    assert "the shell has another HF_TOKEN, which takes precedence" in warned
    assert "git does not ignore .env" in warned
    Path(".gitignore").write_text(".env\n")
    assert "git" not in keys("set", "HF_TOKEN", "--yes", stdin=OTHER).stderr


TEXT = """# The judge
export OPENAI_API_KEY="old"  # of the team

WANDB_MODE=offline
OPENAI_API_KEY='older one'
"""


@pytest.mark.row("V23")
def test_the_other_lines_and_comments_of_the_file_stay() -> None:
    Path(".env").write_text(TEXT)
    set_variable("OPENAI_API_KEY", KEY)
    after = f"# The judge\nOPENAI_API_KEY={KEY}  # of the team\n\nWANDB_MODE=offline\n"
    assert Path(".env").read_text() == after
    set_variable("HF_TOKEN", OTHER)
    assert Path(".env").read_text() == f"{after}HF_TOKEN={OTHER}\n"
    assert unset_variable("OPENAI_API_KEY")
    assert Path(".env").read_text() == f"# The judge\n\nWANDB_MODE=offline\nHF_TOKEN={OTHER}\n"
    assert not unset_variable("OPENAI_API_KEY")


def test_a_variable_that_the_file_does_not_set_cannot_be_unset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path(".env").write_text("HF_TOKEN=abcdefgh12345\n")
    assert "HF_TOKN is not set in .env; did you mean HF_TOKEN?" in refusal("unset", "HF_TOKN")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    assert "The shell sets it: unset WANDB_API_KEY" in refusal("unset", "WANDB_API_KEY")
    assert keys("unset", "HF_TOKEN").stdout == "removed HF_TOKEN from .env\n"


def test_line_ends_of_windows_and_a_missing_last_one_stay_readable() -> None:
    Path(".env").write_bytes(b"HF_TOKEN=old\r\nWANDB_MODE=offline")
    set_variable("HF_TOKEN", OTHER)
    set_variable("OPENAI_API_KEY", KEY)
    found: dict[str, str] = {}
    load_env_file(found)
    assert found == {"HF_TOKEN": OTHER, "WANDB_MODE": "offline", "OPENAI_API_KEY": KEY}


@pytest.mark.parametrize(
    "value", ["a$b", "a#b", 'a"b', "a\\b", "p&q;r", "(x)", "a=b", "$(id)", "!x*"]
)
def test_a_value_is_read_back_by_dotenv_and_by_a_shell(value: str) -> None:
    set_variable("SOME_KEY", value)
    found: dict[str, str] = {}
    load_env_file(found)
    printed = subprocess.run(
        ["sh", "-c", '. ./.env; printf %s "$SOME_KEY"'], capture_output=True, text=True, check=True
    )
    assert (found["SOME_KEY"], printed.stdout) == (value, value)


@pytest.mark.parametrize("value", ["a'b", "a${HOME}b", "a\\\\b"])
def test_a_value_that_would_change_is_refused_and_the_file_stays(value: str) -> None:
    Path(".env").write_text(TEXT)
    with pytest.raises(UsageError, match="cannot hold this value") as error:
        set_variable("SOME_KEY", value)
    assert value not in str(error.value)
    assert Path(".env").read_text() == TEXT


@pytest.mark.row("V23")
def test_a_stored_key_is_in_no_file_of_a_run(project: Project, call: Call) -> None:
    set_variable("OPENAI_API_KEY", KEY)
    code, printed = call("launch", "grpo", "--name", "keyed")
    assert code == 0, printed
    files = [path for path in Path("runs/keyed").rglob("*") if path.is_file()]
    recorded = "".join(path.read_text(errors="replace") for path in files)
    assert '"OPENAI_API_KEY": "…6789"' in recorded
    assert KEY not in recorded + printed
