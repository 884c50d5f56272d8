"""The parts of the screens: one per file, each with its own style and messages."""
