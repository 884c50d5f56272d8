"""One rank of SFT, started by torchrun: ``engine.train.sft_rank CONFIG.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from engine.train.sft import train_rank

if __name__ == "__main__":
    train_rank(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
