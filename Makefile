# Every target makes what it needs; a machine with Python 3.11 or newer and pip is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test check format lint types layers conformance chaos fuzz overload bench constraints dojo wheel clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable ".[agent,agent-framework,bench,demo,fleet]" --group test --group check
	touch $@

demo: setup
	$(BIN)/hookbus demo

# JOBS=0 keeps the suite in one process.
test: setup
	$(BIN)/python -m pytest --numprocesses $(or $(JOBS),2) --dist worksteal

check: setup format lint types layers test

format: setup
	$(BIN)/ruff format --check .

lint: setup
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

conformance: setup
	$(BIN)/python -m pytest tests/conformance \
		--agent-hooks-harness tests.conformance.harness:BusHarness -rs

chaos: setup
	$(BIN)/python -m tests.chaos --seed $(or $(SEED),1) --emissions $(or $(EMISSIONS),100000)

# CASES=1000000 SEED=1 are the defaults; a failure names the case by which it is repeated.
fuzz: setup
	$(BIN)/python -m tests.fuzz --cases $(or $(CASES),1000000) --seed $(or $(SEED),1)

overload: setup
	$(BIN)/python -m tests.chaos.overload

bench: setup
	mkdir -p build
	$(BIN)/hookbus bench --json build/bench.json --plot build/bench.svg --document docs/performance.md

# The versions that are installed now become those that everybody gets.
constraints: setup
	(head -n 1 constraints.txt; $(BIN)/python -m pip freeze --exclude-editable | sort -f) > build-constraints.txt
	mv build-constraints.txt constraints.txt

dojo: setup
	$(BIN)/python -m tests.dojo --attacks --document docs/dojo.md

wheel: setup
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) dist build
