"""Turn a checkpoint of verl into a HF folder: ``python -m engine.train.final_checkpoint FROM TO``.

verl saves one shard file per rank and only the configuration of the model. The folder written here
loads with ``from_pretrained``: full weights, LoRA merged, the data type in ``config.json`` that of
the weights.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from engine.base.errors import UsageError
from engine.base.jsonl import read_json
from engine.run.checkpoints.ownership import STAMP


def export(checkpoint: Path, out: Path, dtype: str = "float32") -> Path:
    """Write ``out`` from a ``global_step_N`` folder (SFT or GRPO); replaces ``out`` as a whole.

    Raises UsageError when the checkpoint is incomplete. ``dtype`` is a torch name such as
    ``bfloat16``.
    """
    shards = shard_folder(checkpoint)
    model = build(shards)
    with whole_folder(out) as folder:
        write_model(model, shards / "huggingface", folder, dtype)
        stamp = checkpoint.parent / STAMP
        if stamp.is_file():
            shutil.copyfile(stamp, folder / STAMP)  # It names the run.
    return out


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A new folder that replaces ``out`` after the block, or goes if the block fails.

    What killed processes left of it goes, too.
    """
    for left in out.parent.glob(f".{out.name}.*"):
        if (pid := left.name.rpartition(".")[2]).isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        _replace(unfinished, out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def shard_folder(checkpoint: Path) -> Path:
    """Return the folder of the weights: the checkpoint itself for SFT, ``actor/`` for GRPO."""
    for folder in (checkpoint, checkpoint / "actor"):
        if any(folder.glob("model_world_size_*_rank_0.pt")):
            return folder
    raise UsageError(f"{checkpoint}: no verl checkpoint (model_world_size_*_rank_0.pt) in it")


def build(shards: Path) -> Any:
    """Load the model on the CPU, LoRA merged, in the data type it was saved in."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    state = merged_state(shards)
    config = AutoConfig.from_pretrained(shards / "huggingface")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
        lora = read_json(shards / "lora_train_meta.json")
        if lora is not None:
            model = _with_lora(model, lora, state)
    model.to_empty(device="cpu")
    model.load_state_dict(state, assign=True)
    model.tie_weights()
    return model if lora is None else model.merge_and_unload()


def merged_state(shards: Path) -> dict[str, Any]:
    """Join the shards of all ranks to full tensors, by name."""
    ranks = int(next(shards.glob("model_world_size_*_rank_0.pt")).name.split("_")[3])
    files = [shards / f"model_world_size_{ranks}_rank_{rank}.pt" for rank in range(ranks)]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise UsageError(f"{shards}: shard {missing[0]} is missing")
    parts = [_load(file) for file in files]
    return {name: join([part[name] for part in parts]) for name in parts[0]}


def allow_checkpoint_classes() -> None:
    """Let ``weights_only`` load what verl saves on one rank and on several, for SFT and GRPO.

    Tensors, sharded ones too, and the states of random generators. torch refuses other classes.
    """
    import numpy as np
    import torch
    import torch.distributed.tensor  # Allows DTensor and the layout of its shards.

    reconstruct: Any = np.zeros(0).__reduce__()[0]
    kinds = [np.ndarray, np.dtype, type(np.dtype(np.uint32))]
    torch.serialization.add_safe_globals([reconstruct, *kinds])


def _load(shard: Path) -> Any:
    import torch

    allow_checkpoint_classes()
    try:
        return torch.load(shard, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        detail = str(error).splitlines()[0]
        message = f"{shard}: contains more than weights, so it is not loaded: {detail}"
        raise UsageError(message) from error


def join(tensors: Sequence[Any]) -> Any:
    """Join the ranks' DTensors (sharded or replicated), or plain copies, to one full tensor."""
    import torch
    from torch.distributed.tensor import DTensor, Shard

    first = tensors[0]
    if not isinstance(first, DTensor):
        return first
    placement = first.placements[-1]
    local = [tensor.to_local() for tensor in tensors]
    return torch.cat(local, dim=placement.dim) if isinstance(placement, Shard) else local[0]


def _with_lora(model: Any, meta: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    from peft import LoraConfig, get_peft_model

    adapted = {name.split(".lora_A.")[0].rsplit(".", 1)[1] for name in state if ".lora_A." in name}
    config = LoraConfig(
        r=int(meta["r"]), lora_alpha=int(meta["lora_alpha"]), target_modules=sorted(adapted)
    )
    return get_peft_model(model, config)


def write_model(model: Any, names: Path | str, folder: Path, dtype: str) -> None:
    """Write weights, configuration and tokenizer. ``names`` is the folder or hub name of the
    tokenizer; generation settings in that folder are kept."""
    import torch
    from transformers import AutoTokenizer, GenerationConfig

    if (Path(names) / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(names)
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(names).save_pretrained(folder)


def _replace(unfinished: Path, out: Path) -> None:
    """Replace ``out``: a reader sees the old folder or the new one, and never half of one."""
    old = out.with_name(f".{out.name}.old.{os.getpid()}")
    if out.exists():
        out.rename(old)
    unfinished.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.train.final_checkpoint")
    parser.add_argument("checkpoint", type=Path, help="a global_step_N folder")
    parser.add_argument("out", type=Path)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    args = parser.parse_args(list(arguments))
    try:
        print(f"final model: {export(args.checkpoint, args.out, args.dtype)}")
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
