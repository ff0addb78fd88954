# Every target sets up .venv by itself; nothing but Python 3.11+ is needed.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
# Two stamps: what it takes to run, and what it takes to work on it.
RUNS := .venv/.runs
READY := .venv/.ready

# Of make stress: for how long, and which problems.
SECONDS ?= 60
SEED ?= 0

.PHONY: demo test lint docs bench quality paper stress format clean

demo: $(RUNS)
	$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/python -m pytest -n auto

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)
	$(BIN)/python docs/reference.py
	$(BIN)/python -m tests.renew_docs
	$(BIN)/python -m mkdocs build

bench: $(READY)
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.export

quality: $(READY)
	$(BIN)/python -m benchmarks.quality --write
	$(BIN)/python -m benchmarks.readme

paper: $(READY)
	$(BIN)/python -m benchmarks.paper

stress: $(READY)
	$(BIN)/python -m benchmarks.stress --seconds $(SECONDS) --seed $(SEED)

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv site .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(RUNS): pyproject.toml
	$(PYTHON) -m venv .venv
	$(PIP) .
	touch $@

$(READY): $(RUNS)
	$(PIP) '.[dev]'
	touch $@
