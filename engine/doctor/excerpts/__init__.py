"""Numbers of training in a text that no known trainer wrote, or that was cut out of its log."""

from engine.doctor.excerpts.reading import Excerpt, fuller, read_excerpt, with_meanings

__all__ = ["Excerpt", "fuller", "read_excerpt", "with_meanings"]
