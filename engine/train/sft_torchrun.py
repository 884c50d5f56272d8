"""torchrun with a store that only this host reaches: ``... TORCHRUN_ARGS``."""

from __future__ import annotations

import sys

from engine.train import patches

if __name__ == "__main__":
    from torch.distributed.run import main

    patches.apply_to_sockets()
    main(sys.argv[1:])
