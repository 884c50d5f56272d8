"""The machine that runs execute on: its GPUs, memory, processes that outlive a terminal."""
