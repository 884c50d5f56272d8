"""SFT with torchrun: ``engine.train.sft_rank TORCHRUN_ARGS`` starts it, with a store that only this
host reaches, and it starts each rank: ``engine.train.sft_rank CONFIG.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from engine.train import patches
from engine.train.sft import train_rank

if __name__ == "__main__":
    if sys.argv[1].startswith("--"):
        from torch.distributed.run import main

        patches.apply_to_sockets()
        main(sys.argv[1:])
    else:
        train_rank(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
