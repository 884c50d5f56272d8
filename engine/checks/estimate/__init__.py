"""Estimate what a run needs: memory, disk, judge calls, hours. Nothing here imports torch."""
