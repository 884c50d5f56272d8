"""The run directory as files: manifest, state, events and list, and who may act on a run."""
