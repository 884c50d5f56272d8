"""What a run will need: memory, disk, judge, hours. Nothing here imports torch."""
