"""Import a script of verl, or a config of AFlow, as a config of ours."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from engine.base import files
from engine.base.errors import UsageError
from engine.config.config_files import CONFIG_DIR
from engine.config.keys import unflatten
from engine.config.load import Config, load_config
from engine.config.unread import unread_reasons
from engine.run.kinds import GRPO, SFT
from engine.translate.aflow import translate_aflow
from engine.translate.grpo_script import for_cpu, translate_grpo
from engine.translate.sft_script import sft_for_cpu, translate_sft
from engine.translate.translation import Translation, in_order, without_keys
from engine.translate.verl_script import read_script, without_gpu_variables

_SUFFIXES = (".yaml", ".yml")
_SECTIONS = (
    *("grubrics", "reward", "model", "lora", "data", "actor_rollout_ref", "algorithm"),
    *("training", "trainer", "logging", "ray_kwargs"),
)
"""The order of the sections in a config; others follow."""


@dataclass(frozen=True)
class ImportedConfig:
    """``text`` is the config, which ``path`` will have; ``name`` is what commands take for it."""

    translation: Translation
    path: Path
    text: str

    @property
    def name(self) -> str:
        is_by_name = self.path.parent == CONFIG_DIR and self.path.suffix == ".yaml"
        return self.path.stem if is_by_name else str(self.path)


def plan_import(
    source: Path,
    arguments: Sequence[str] = (),
    *,
    out: Path | None = None,
    line: int | None = None,
    device: str | None = None,
    force: bool = False,
) -> ImportedConfig:
    """Translate ``source`` and check the config. Nothing is written.

    ``arguments`` are those of a script (``$1``, ``$@``), ``line`` is that of its trainer if it has
    several, and ``device`` is ``cpu`` for a machine without a GPU. UsageError for a file that
    cannot be translated, or if the config exists and ``force`` is not set.
    """
    if device not in (None, "cpu", "cuda"):
        raise UsageError(f"--device {device}: choose cpu or cuda")
    path = _path(source, out)
    if path.exists() and not force:
        raise UsageError(f"{path} exists; choose another file with --out, or replace it: --force")
    translation = _translate(source, arguments, line, path.stem)
    _load(translation)
    if device == "cpu":
        translation = _on_cpu(translation)
        _load(translation)
    return ImportedConfig(translation, path, _format(translation, path))


def write_import(config: ImportedConfig) -> None:
    """Write the config. OSError."""
    config.path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomic(config.path, config.text)


def _path(source: Path, out: Path | None) -> Path:
    if not source.is_file():
        raise UsageError(f"{source} is not a file; give a script of verl or a config of AFlow")
    if out is None:
        stem = re.sub(r"[^\w.-]+", "-", source.stem, flags=re.ASCII).strip("-.") or "config"
        return CONFIG_DIR / f"{stem}.yaml"
    if out.suffix not in _SUFFIXES:
        raise UsageError(f"--out {out}: the name of a config ends with .yaml")
    return out


def _translate(source: Path, arguments: Sequence[str], line: int | None, stem: str) -> Translation:
    if source.suffix in _SUFFIXES:
        if arguments:
            raise UsageError(f"{source}: only a script has arguments, such as {arguments[0]!r}")
        return Translation(source, GRPO, in_order(translate_aflow(source)))
    call = read_script(source, arguments, line)
    if call.trainer == "ppo":
        return Translation(source, GRPO, in_order(translate_grpo(source, call)))
    return Translation(source, SFT, in_order(translate_sft(call, stem)))


def _on_cpu(translation: Translation) -> Translation:
    rows = list(without_gpu_variables(translation.rows))
    if translation.kind == SFT:
        return replace(translation, rows=in_order(sft_for_cpu(rows)))
    on_gpu = _load(translation)
    translation = replace(translation, rows=in_order(for_cpu(rows, on_gpu)))
    only_on_gpu = {
        key: f"for a CPU: {reason}"
        for key, reason in unread_reasons(_load(translation), translation.values).items()
        if key not in unread_reasons(on_gpu, [key])
    }
    return replace(translation, rows=in_order(without_keys(translation.rows, only_on_gpu)))


def _load(translation: Translation) -> Config:
    """Load the config as every command will. UsageError names the source."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(_format(translation, path), encoding="utf-8")
        try:
            return load_config(str(path), env={})
        except UsageError as error:
            raise UsageError(
                f"{translation.source}: {str(error).removeprefix(f'{path}: ')}"
            ) from error


def _format(translation: Translation, path: Path) -> str:
    kind, name = translation.kind, re.sub(r"[^\w.-]", "_", translation.source.name)
    first: dict[str, Any] = {
        "grubrics.kind": kind.name,
        "grubrics.description": f"imported from {name}",
    }
    tree = unflatten({**first, **translation.values})
    order = [*(key for key in _SECTIONS if key in tree), *(key for key in tree)]
    ordered = {key: tree[key] for key in dict.fromkeys(order)}
    comment = f"# {kind.title}, imported from {name}. All values: grubrics-tui config {path.stem}\n"
    return comment + yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, width=100)
