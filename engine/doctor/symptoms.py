"""The symptoms of the modules of this folder: texts and fixes of ``symptoms.yaml``."""

from engine.findings.symptom_file import Symptoms

SYMPTOMS = Symptoms(__file__)
