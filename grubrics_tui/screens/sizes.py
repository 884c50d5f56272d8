"""From which width and height on a screen shows its full layout (Textual's breakpoint classes)."""

from __future__ import annotations

WIDTHS = [(0, "-narrow"), (100, "-wide")]
HEIGHTS = [(0, "-short"), (32, "-tall")]
