"""The live view of a run: header, banner and panels."""
