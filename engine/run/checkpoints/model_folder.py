"""A Hugging Face model folder, read without loading it."""

from __future__ import annotations

import math
import shutil
import struct
from pathlib import Path

import msgspec
from msgspec import Struct

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.quantities import format_hub_size

DTYPES = ("float32", "bfloat16", "float16")
"""In what the weights of a model that we write can be stored."""

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")
_READ = (".json", ".safetensors", ".bin", ".model", ".jinja", ".txt", ".py", ".pt", ".gguf")
_SINGLE = ("model.safetensors", "pytorch_model.bin")
_INDEXED = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_LONGEST_HEADER = 100 * 1024 * 1024


def missing_parts(folder: Path) -> list[str]:
    """What keeps ``folder`` from being loaded as a model: config.json, weights, tokenizer."""
    parts = {
        "config.json": (folder / "config.json").is_file(),
        "weights (model.safetensors)": bool(weight_files(folder)),
        "tokenizer (tokenizer.json)": any((folder / name).is_file() for name in _TOKENIZERS),
    }
    return [name for name, present in parts.items() if not present]


def model_files(folder: Path) -> list[Path]:
    """What loading ``folder`` may read: weights, settings, tokenizer, templates, its own code."""
    return sorted(path for path in folder.iterdir() if path.suffix in _READ and path.is_file())


def weight_files(folder: Path) -> list[Path]:
    """The files that together hold all weights; empty when one of them is missing."""
    for name in _SINGLE:
        if (folder / name).is_file():
            return [folder / name]
    for name in _INDEXED:
        index = jsonl.read_json(folder / name)
        shards = set((index or {}).get("weight_map", {}).values())
        if shards:
            files = [folder / shard for shard in sorted(shards)]
            return files if all(file.is_file() for file in files) else []
    return []


def parameter_count(folder: Path) -> int | None:
    """Number of weights, from the headers of the safetensors files; None for other formats."""
    files = weight_files(folder)
    if not files or any(file.suffix != ".safetensors" for file in files):
        return None
    headers = [_header(file) for file in files]
    return sum(math.prod(each.shape) for header in headers for each in header.values()) or None


def weights_bytes(source: Path) -> int:
    """Bytes of the weights of a checkpoint or model; 0 for a name on the hub."""
    if not source.is_dir():
        return 0
    shards = [*source.rglob("model_world_size_*_rank_*.pt")]
    return sum(path.stat().st_size for path in shards or model_files(source))


def require_space(folder: Path, needed: int) -> None:
    """UsageError unless the disk of ``folder`` has room for ``needed`` bytes."""
    if (free := free_bytes(folder)) < needed:
        raise UsageError(f"{folder} needs {format_hub_size(needed)}; {format_hub_size(free)} free")


def free_bytes(path: str | Path) -> int:
    """Free bytes of the file system that ``path`` is or will be on."""
    path = Path(path).expanduser().absolute()
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    return shutil.disk_usage(existing).free


class _Tensor(Struct, frozen=True):
    """A tensor in the header of a safetensors file; the entry of the metadata has no shape."""

    shape: tuple[int, ...] = ()


def _header(path: Path) -> dict[str, _Tensor]:
    """The tensors of a safetensors file: 8 bytes of length, then JSON, then the weights."""
    with path.open("rb") as handle:
        prefix = handle.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
        raw = handle.read(length) if length <= _LONGEST_HEADER else b""
    try:
        header = msgspec.json.decode(raw, type=dict[str, _Tensor])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return {name: entry for name, entry in header.items() if name != "__metadata__"}
