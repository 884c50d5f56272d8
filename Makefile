# `make run` and `make test` install what they need; the second call is quick.
# Default: the first interpreter of a tested version.
PYTHON ?= $(shell for p in python3 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null \
	&& echo $$p && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SFT    := checkpoints/grubrics-transfer/sft-tiny/final/config.json
WORLD  := data/tiny/processed/train.parquet

# These import torch when they are collected, and all of their tests are slow or of the trainer.
NO_TORCH := --ignore=tests/engine/train --ignore=tests/engine/checks/estimate/test_activations.py

# uv installs in a sixth of pip's time. It does not read pip's settings: without access to PyPI, e.g.
# behind a mirror, pip installs. compileall takes all cores and leaves out what is not imported here; it
# fails for templates, which are no Python yet.
PIP          := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
PACKAGES     := -c constraints-cpu.txt -e '.[train,dev]'
NOT_IMPORTED := /(tests?|testing|pip|mypy|networkx|torch/(_inductor|onnx)|openai/resources|sympy/(physics|stats)|ray/(rllib|data|serve|tune|train|llm)|scipy/(stats|signal|interpolate|integrate))/|/transformers/models/(?!auto/|qwen2/)

.DEFAULT_GOAL := help
.PHONY: help run test quick training thorough check short static lint types contracts generated clean

help:
	@echo "make run       open the TUI on the tiny demo (without a terminal: launch it)"
	@echo "make check     lint, types, import contracts, and the quick tests: none that trains, imports"
	@echo "               the trainer, drives a screen or a process, or computes long; of many cases, two"
	@echo "make test      the same, with all tests except the thorough ones"
	@echo "make thorough  the thorough tests: more cases of the same, and trainings that are killed,"
	@echo "               broken and sent to a cluster; for a release, and for a change to one of these"
	@echo "make generated update docs/findings.md, the list of finding IDs, the tables of judge providers and log formats,"
	@echo "               the picture of the rooms in docs/architecture.md, docs/api.md"

run: $(STAMP) $(SFT)
	@$(BIN)/grubrics-tui --config grpo_tiny

test: $(STAMP)
	@$(BIN)/python benchmarks/code_shape.py --budget
	@$(MAKE) --no-print-directory -j2 static quick
	@$(MAKE) --no-print-directory training

# Four workers on two cores: many of these tests wait for a screen or a process. A worker without
# tests takes half of those of another one, so that none ends minutes after the others.
quick: $(STAMP)
	@$(BIN)/python -m pytest tests -m "not slow and not trainer and not thorough" \
		$(NO_TORCH) -n 4 --dist worksteal

# Collecting all tests costs each worker 13 s of CPU: these are the files that have some of the markers.
# tests/conftest.py sorts them, so that no worker waits for the others. Three workers on two cores:
# trainings wait for Ray half of their time.
training: $(STAMP)
	@$(BIN)/python -m pytest tests/engine/train \
		$$(grep -rlE 'mark\.(slow|trainer)' tests --include='test_*.py') -m "(slow or trainer) and not thorough" \
		-n 3 --dist loadfile --no-loadscope-reorder --durations=10

# Also every property test, with all of its examples.
thorough: $(STAMP)
	@$(BIN)/python -m pytest tests -m "thorough or hypothesis" --hypothesis-profile=thorough \
		-n 3 --dist loadfile --no-loadscope-reorder

check: $(STAMP)
	@$(MAKE) --no-print-directory -j2 static short

short: $(STAMP)
	@$(BIN)/python -m pytest tests --brief --hypothesis-profile=brief \
		-m "not slow and not trainer and not thorough and not waits and not long" $(NO_TORCH) -n 3

static: lint types contracts

lint: $(STAMP)
	@$(BIN)/ruff check engine grubrics_tui tests benchmarks docs
	@$(BIN)/ruff format --check engine grubrics_tui tests benchmarks docs

types: $(STAMP)
	@$(BIN)/mypy

generated: $(STAMP)
	@$(BIN)/python -m engine.doctor.catalogue docs/findings.md
	@$(BIN)/python -m engine.base.judge_providers docs/data.md
	@$(BIN)/python -m engine.logs.formats.detect docs/cockpit.md
	@$(BIN)/python docs/rooms.py
	@$(BIN)/python docs/api.py

contracts: $(STAMP)
	@$(BIN)/lint-imports

$(WORLD): $(STAMP)
	@$(BIN)/python -m engine.data.tiny_world

$(SFT): | $(STAMP) $(WORLD)
	@$(BIN)/grubrics-tui launch sft_tiny --wait

$(STAMP): pyproject.toml constraints-cpu.txt
	@test -n "$(PYTHON)" || { echo "grubrics-tui needs Python 3.11 or 3.12; try: make PYTHON=/path/to/python3.12" >&2; exit 2; }
	@echo "Setting up $(VENV) (once; takes a few minutes and about 2 GB) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -c constraints-cpu.txt uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python $(PACKAGES) $(addprefix --find-links ,$(PIP_FIND_LINKS)) \
		|| $(PIP) $(PACKAGES)
	@$(BIN)/python -m compileall -qq -j 0 -x '$(NOT_IMPORTED)' $(VENV)/lib || true
	@touch $@

clean:
	rm -rf $(VENV) data/tiny data/cache/tiny_precompute.jsonl
