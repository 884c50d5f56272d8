"""``python -m grubrics_tui``."""

from grubrics_tui.cli import main

main()
