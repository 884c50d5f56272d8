"""The command lines whose output is kept, and how one of them is called.

``runs``, ``evaluations``, ``ablations`` and ``logs`` lie in the project as a version left them
there. Left out are commands that start a process, ask a network, or write: of those with
``--dry-run``, the plan is here.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import psutil
import pynvml
import pytest
import typer
from typer.core import TyperGroup

from grubrics_tui import cli
from tests.paths import CONFIGS, ROOT

FOLDER = Path(__file__).parent
OUTPUTS = FOLDER / "outputs"
KEPT = ("runs", "evaluations", "ablations", "logs", "docs", "checkpoints")
NOW = 1_796_083_200.0  # 2026-12-01 00:00:00 UTC, after all runs
CHANGED = NOW - 3600
"""When every file was last changed."""
HOST = "trainer"
"""Where the runs of the corpus ran."""
_THERE = "/srv/project"
"""The folder of the project when the corpus was made."""
_OF_THE_MACHINE = {
    r"(?m)^(owner +)'.*'$": r"\1'USER'",
    r"--user=\d+:\d+": "--user=0:0",
    r"(manifest\.json \| [\d,]+ \|) \w{64}": r"\1 SHA-256",  # it holds the project's path
    r"Python [\d.]+; torch [^;]*; device": "PACKAGES; device",
}
_DISK_FREE, _MEMORY = 500 << 30, 64 << 30
_HOME = "home"
_PROGRAMS = "bin"


@dataclass(frozen=True)
class Case:
    """A command line, and where its output is kept."""

    words: tuple[str, ...]
    name: str

    @property
    def path(self) -> Path:
        return OUTPUTS / self.words[0] / f"{self.name}.txt"

    def __str__(self) -> str:
        return f"{self.words[0]}-{self.name}"


def _case(line: str, name: str) -> Case:
    return Case(tuple(line.split()), name)


def _both(line: str, name: str) -> Iterator[Case]:
    """As text, and as JSON."""
    yield _case(line, name)
    yield _case(f"{line} --json", f"{name}-json")


def _runs() -> list[str]:
    folders = [path for path in (FOLDER / "runs").iterdir() if path.is_dir()]
    return sorted(folder.name for folder in folders if not folder.name.startswith("."))


_ONE_RUN = {
    "fix": (
        "--dry-run --trust",
        ["grpo-blowup", "grpo-failed", "reward-raises", "grpo-demo", "broken"],
    ),
    "resume": (
        "--dry-run --trust",
        ["grpo-stopped", "grpo-lost", "sft-lost", "sft-demo", "broken"],
    ),
    "reproduce": ("--dry-run --trust", ["reward-raises", "grpo-failed", "command-failed"]),
    "prune": ("--dry-run", ["grpo-demo", "sft-demo", "grpo-lost"]),
    "entry": ("", ["grpo-demo", "sft-demo", "grpo-failed", "grpo-blowup-remedy", "broken"]),
    "estimate": ("", ["grpo-demo", "sft-demo", "command-finished"]),
    "summarize": ("", ["grpo-demo", "own-reward", "reward-raises", "sft-demo"]),
    "table": ("", ["grpo-stopped", "sft_tiny-19e953-base-s42", "command-pattern", "damaged-lines"]),
    "note": ("", ["grpo-demo", "sft-demo"]),
    "tag": ("", ["grpo-demo", "sft-demo"]),
    "report": ("--markdown -", ["grpo-demo", "sft-demo", "reward-raises", "command-pattern"]),
    "watch": ("", ["grpo-demo", "grpo-failed", "command-finished"]),
}
"""Commands with their options, and runs of which they tell something."""
_ARMS = ("base-s42", "base-s43", "learning-rate-1e-3-s42", "learning-rate-1e-3-s43")
_OTHERS = {
    "runs": {
        "all": "",
        "failed": "--filter state:failed",
        "reward": "--sort reward",
        "columns": "--columns id,kind,state,lr,step,critic/score/mean",
        "above": "--filter critic/score/mean>0.1",
        "archived": "--archived",
        "unknown-column": "--columns id,no_such",
        "unknown-field": "--filter no_such:x",
    },
    "rollouts": {
        "step": "grpo-demo --step 2",
        "group": "grpo-demo --group 1",
        "advantage": "grpo-demo --sort advantage",
        "validation": "grpo-demo --validation",
        "filter": "grpo-demo --filter best",
        "across": "grpo-demo --group 1 --across-steps",
        "no-step": "grpo-demo --step 99",
        "tools-group": "grpo-tools --group 1",
    },
    "compare": {
        "one": "grpo-demo",
        "sft": "sft-demo sft-lost",
        "fixed": "grpo-blowup grpo-blowup-remedy",
        "resumed": "grpo-demo grpo-resumed",
        "commands": "command-finished command-pattern",
        "kinds": "sft-demo grpo-demo command-finished",
        "seeds": " ".join(f"sft_tiny-19e953-{arm}" for arm in _ARMS),
        "each": "--each " + " ".join(f"sft_tiny-19e953-{arm}" for arm in _ARMS[:2]),
        "damaged": "grpo-demo damaged-lines damaged-manifest-cut",
        "metric": "grpo-demo grpo-stopped --equal-steps --metric critic/score/mean",
    },
    "queue": {"all": ""},
    "reap": {"all": ""},
    "keys": {"all": ""},
    "settings": {"all": ""},
    "pipeline": {
        "small": "small.yaml --status",
        "broken": "broken.yaml --status",
        "never": "pipeline_tiny --status",
        "unknown": "no_such --status",
        "tiny-plan": "pipeline_tiny --dry-run",
        "tiny-skip": "pipeline_tiny --dry-run --skip sft",
    },
    "ablate": {
        "table": "sft_tiny-19e953 --dry-run",
        "plan": "sft_tiny --knob learning_rate=1e-4,2e-4 --seeds 2 --steps 5 --dry-run"
        " data.val_file=data/tiny/sft/train.jsonl",
    },
    "show": {"unknown": "no-such-run", "prefix": "grpo-b"},
    "metrics": {
        "values": "grpo-demo critic/score/mean actor/pg_loss",
        "dashboard": "grpo-demo train/policy_loss",
        "unknown": "grpo-demo no/such",
        "several": "runs/grpo-demo runs/grpo-resumed critic/score/mean",
        "missing": "no-such-run",
    },
    "config": {
        "no-such-config": "no_such",
        "unknown-key": "grpo_tiny no_such=1",
        "bad-value": "grpo_tiny optim.lr=fast",
        "bad-form": "grpo_tiny lr",
        "changed": "grpo-demo --changed",
        "unused": "sft-demo --unused",
        "cli": "grpo-demo --origin cli",
        "explain": "verl_grpo --explain kl_loss",
    },
    "diagnose": {"several": "grpo-blowup reward-raises", "missing": "no-such-run"},
    "fix": {
        "untrusted": "grpo-blowup --dry-run",
        "second": "grpo-blowup --dry-run --trust --number 2",
        "ninth": "grpo-blowup --dry-run --trust --number 99",
    },
    "table": {
        "long": "grpo-demo --long --metric critic/score/mean",
        "markdown": "command-pattern --markdown",
    },
    "summarize": {
        "markdown": "grpo-demo own-reward --markdown",
        "csv": "grpo-demo --csv --validation",
    },
    "report": {"pr": "grpo-demo grpo-resumed --markdown - --pr --samples 1"},
    "estimate": {
        "unknown": "no_such",
        "verl_grpo": "verl_grpo --gpu-memory 80 --gpus 4",
        "sft_healthbench": "sft_healthbench --gpu-memory 80 --gpus 4",
    },
    "verify": {"missing": "no-such.zip", "package": "packages/command-finished.zip"},
    "check": {
        "sft": "sft_tiny",
        "grpo": "grpo_tiny",
        "override": "grpo_tiny data.train_batch_size=3",
    },
    "audit": {"rows": "grpo_tiny --rows 4"},
    "completion": {"bash": "bash", "zsh": "zsh", "fish": "fish"},
    "container": {"docker": "grpo_tiny", "apptainer": "sft_tiny --engine apptainer"},
    "wandb": {"ls": "ls logs/wandb"},
    "adopt": {"log": "logs/hf-trainer --dry-run --name own", "unknown": "logs/no-such"},
    "smoke-test": {"plan": "--dry-run"},
    "evaluate": {"unknown": "no-such-run"},
    "sweep": {"unknown": "no-such-run"},
    "run": {"plan": "--dry-run --name own -- python train.py"},
    "launch": {
        "unknown": "no_such --dry-run",
        "from": "--from grpo-demo --trust --dry-run --name again actor.optim.lr=1e-5",
        "seeds": "sft_tiny --dry-run --seeds 1,2 --name seeds",
    },
    "no-such-command": {"all": ""},
}
_ONLY_TEXT = (" -- ", "--csv", "--markdown")
_SFT_CHANGES = (
    "learning_rate=3e-5", "training.max_steps=7", "training.output_dir=checkpoints/other",
    "training.per_device_train_batch_size=4", "data.max_seq_length=200", "training.seed=7",
    "logging.report_to=[console,wandb]", "lora.r=8", "guard.stop_on=[loss_nan]",
    "supervision.stall_floor_s=600",
)  # fmt: skip
_GRPO_CHANGES = (
    "actor.optim.lr=3e-6", "data.train_batch_size=8", "trainer.total_training_steps=7",
    "rollout.n=16", "actor_rollout_ref.model.lora_rank=8", "rollout.temperature=0.7",
    "judge.max_concurrent=4", "trainer.logger=[console,wandb]",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.4",
    "reward.custom_reward_function.path=own_reward.py",
    "trainer.save_freq=5",
)  # fmt: skip
_CHANGES = {
    "sft_tiny": _SFT_CHANGES,
    "sft_healthbench": _SFT_CHANGES,
    "grpo_tiny": _GRPO_CHANGES,
    "verl_grpo": _GRPO_CHANGES,
    "verl_grpo_debug": _GRPO_CHANGES,
}
"""Of every packaged config: overrides that different parts of the program read."""
_GRPO_HERE = (
    "grubrics.device=cpu actor_rollout_ref.rollout.dtype=float32 judge.provider=offline"
    " data.train_files=data/tiny/processed/train.parquet"
    " data.val_files=data/tiny/processed/val.parquet actor_rollout_ref.model.path=data/tiny/model"
    " data.max_prompt_length=512 data.max_response_length=256 reward_config.use_contrastive=false"
)
_HERE = {
    "sft_healthbench": "grubrics.device=cpu training.bf16=false model.path=data/tiny/model"
    " data.train_file=data/tiny/sft/train.jsonl data.max_seq_length=512",
    "verl_grpo": f"{_GRPO_HERE} reward.num_workers=1 actor_rollout_ref.rollout.load_format=auto"
    " actor_rollout_ref.model.use_remove_padding=false actor_rollout_ref.rollout.name=hf",
    "verl_grpo_debug": _GRPO_HERE,
}
"""What makes a config fit a machine without a GPU, and the data of the corpus."""


def _cases() -> Iterator[Case]:
    for run in _runs():
        yield from _both(f"show {run}", run)
        yield from _both(f"diagnose {run}", run)
        yield _case(f"metrics {run}", run)
        yield _case(f"config {run}", run)
        yield _case(f"rollouts {run}", run)
    for log in sorted(path.name for path in (FOLDER / "logs").iterdir()):
        for command in ("diagnose", "metrics"):
            yield from _both(f"{command} logs/{log}", f"log-{log}")
    for log in ("hf-trainer", "wandb", "verl-grpo.log", "nan.log"):
        yield from _both(f"config logs/{log}", f"log-{log}")
    for command, (options, runs) in _ONE_RUN.items():
        for run in runs:
            yield from _both(f"{command} {run} {options}", run)
    for command, lines in _OTHERS.items():
        for name, line in lines.items():
            yield _case(f"{command} {line}", name)
            if not any(option in line for option in _ONLY_TEXT):
                yield _case(f"{command} {line} --json", f"{name}-json")
    for config, changes in _CHANGES.items():
        plain = f"launch {config} --dry-run --name own"
        here = f"{plain} {_HERE.get(config, '')}"
        some = "--origin file" if config.endswith("_debug") else ""
        yield _case(f"config {config} {some} --json", f"{config}-json")
        yield _case(plain, config)
        yield from _both(here, f"{config}-here")
        for change in changes:
            key = change.partition("=")[0]
            yield _case(f"{here} {change} --json", f"{config}-{key}")
    tools = "multi_turn.function_tool_path=own_tools.py default_agent_loop=tool_agent"
    yield _case(f"launch grpo_tiny --dry-run --name own {tools} --json", "grpo_tiny-tools")
    yield _case("config sft_tiny", "sft_tiny")
    # Each starts Python anew, for the tokenizer.
    yield _case("tokens sft_tiny", "sft")
    yield _case("tokens grpo_tiny --row 2 --each --json", "grpo-json")
    program = typer.main.get_command(cli.app)
    assert isinstance(program, TyperGroup)
    for command in program.list_commands(typer.Context(program)):
        yield Case((command, "--help"), "help")


CASES = tuple(_cases())


def _lay_out(folder: Path) -> None:
    """Copy what the corpus has of a project, and what it leaves out."""
    for kind in KEPT:
        shutil.copytree(FOLDER / kind, folder / kind)
    shutil.copytree(FOLDER / "project", folder, dirs_exist_ok=True)
    shutil.copytree(CONFIGS, folder / "configs")
    (folder / "runs/damaged-empty/.gitkeep").unlink()
    tiny = folder / "data/tiny"
    (tiny / "processed").mkdir()
    for name in ("train", "val"):
        (source,) = (FOLDER / "runs/grpo-demo/data").glob(f"*-{name}.parquet")
        shutil.copy(source, tiny / "processed" / f"{name}.parquet")
    (tiny / "model/model.safetensors").touch()
    trained = folder / "checkpoints/grubrics-transfer/sft-tiny/final"
    shutil.copytree(tiny / "model", trained, dirs_exist_ok=True)
    # The package that scored this run, as it was then.
    shutil.copytree(FOLDER / "runs/grpo-tools/code", folder / "packages/tasks")
    (folder / _PROGRAMS).mkdir()
    for name in ("python", "sh"):
        (folder / _PROGRAMS / name).touch()
    for path in folder.rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(_THERE, str(folder)), encoding="utf-8")
    for path in sorted(folder.rglob("*"), reverse=True):
        path.chmod(0o755 if path.is_dir() or path.parent.name == _PROGRAMS else 0o644)
        os.utime(path, (CHANGED, CHANGED), follow_symlinks=False)


def _find_no_driver() -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


@contextmanager
def project(folder: Path) -> Iterator[None]:
    """A copy of the corpus in ``folder``, which becomes the current one: at ``NOW`` in UTC, on a
    machine without GPUs and other programs."""
    _lay_out(folder)
    system, disk = os.uname(), shutil.disk_usage(folder)._replace(free=_DISK_FREE)
    memory = psutil.virtual_memory()._replace(total=_MEMORY, available=_MEMORY)
    variables = {
        "TZ": "UTC",
        "COLUMNS": "120",
        "LC_ALL": "C.UTF-8",
        "PATH": str(folder / _PROGRAMS),
        "CUDA_VISIBLE_DEVICES": "",
        "HOME": str(folder / _HOME),
        "XDG_STATE_HOME": str(folder / _HOME / "state"),
        "XDG_CACHE_HOME": str(folder / _HOME / "cache"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(time, "time", lambda: NOW)
        patch.setattr(os, "uname", lambda: os.uname_result((system[0], HOST, *system[2:])))
        patch.setattr(shutil, "disk_usage", lambda _: disk)
        patch.setattr(psutil, "virtual_memory", lambda: memory)
        patch.setattr(pynvml, "nvmlInit", _find_no_driver)
        for name, value in variables.items():
            patch.setenv(name, value)
        time.tzset()
        yield
    time.tzset()


def output(case: Case) -> str:
    """Exit code, stdout and stderr of the command, without what depends on the machine.

    It finds no trust and no cache of a command before it.
    """
    shutil.rmtree(_HOME, ignore_errors=True)
    shown, told = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(shown), redirect_stderr(told):
        patch.setattr(sys, "argv", ["grubrics-tui", *case.words])
        patch.setattr(sys, "stdin", io.StringIO())
        with pytest.raises(SystemExit) as ended:
            cli.main()
    parts = [f"exit code {ended.value.code}: grubrics-tui {' '.join(case.words)}"]
    for title, stream in (("stdout", shown), ("stderr", told)):
        stream.flush()
        if text := stream.buffer.getvalue().decode():
            parts += [f"--- {title}", _in_lines(text).removesuffix("\n")]
    return _normalized("\n".join(parts) + "\n")


def _in_lines(text: str) -> str:
    """JSON with a line for each object and list, so that a diff can be read."""
    return re.sub(r'([]}],) (?=["{\[])', r"\1\n", text) if text.startswith(("{", "[")) else text


def _normalized(text: str) -> str:
    """The text with the paths, the user and the packages of the corpus."""
    for here, there in (
        (sys.executable, "/srv/grubrics-tui/.venv/bin/python"),
        (str(Path.cwd()), _THERE),
        (str(ROOT), "/srv/grubrics-tui"),
        (sys.prefix, "/srv/grubrics-tui/.venv"),
    ):
        text = text.replace(here, there)
    for pattern, common in _OF_THE_MACHINE.items():
        text = re.sub(pattern, common, text)
    return text
