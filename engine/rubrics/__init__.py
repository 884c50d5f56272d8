"""The GRubrics domain: what a rubric is, how it is judged, and what reward it earns."""
