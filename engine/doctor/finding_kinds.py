"""The kinds of findings of this folder's modules: texts and fixes of ``finding_kinds.yaml``."""

from engine.run.finding_kind_file import FindingKinds

KINDS = FindingKinds(__file__)
