# One command a task. `make test` is what CI runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BASE := $(VENV)/.base
HOT_TESTS := tests/cluster tests/scheduling tests/twin/kubelet tests/workloads/test_job_controller.py \
  tests/queueing tests/twin/kueue tests/twin/test_copies_are_whole.py \
  tests/apiserver/test_whole_rules.py
LOWEST_TESTS := tests/results tests/cli tests/kube tests/cluster tests/traces tests/metering tests/admission tests/apiserver
COMPILED := $(BIN)/python -m fairway.compiled
# Each `fairway` that a test starts reads the bytecode that is there, also where the machine asks for none to be kept:
# two seconds a process.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help run test lint types imports unit mutants verify bench compiled docs gallery dist dist-test lowest lock clean

help:
	@echo "make run     play the demo scenario end to end and print its report"
	@echo "make test    lint, types, import direction and tests: what CI runs"
	@echo "make mutants small wrong changes to the engine rooms, and which of them no test notices (SEED, EACH, ROOMS)"
	@echo "make verify  replay the recordings of the real engines: how many cases agree"
	@echo "make bench   run the benchmarks"
	@echo "make compiled   compile the hot modules again after an edit: simulations twice as fast"
	@echo "make docs    build the documentation site into build/site; gallery makes its pictures anew"
	@echo "make dist    sdist, pure wheel and this platform's compiled wheel into dist/; dist-test installs and uses each"
	@echo "make lowest  the tests of every room but the slow ones with the oldest libraries that pyproject.toml admits"
	@echo "make lock    write requirements-dev.txt: the versions that development uses"
	@echo "make clean   remove .venv and caches"

# Debian splits venv out of python3; ensure it where we may, say so where we may not.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Fairway needs Python 3.11 or newer; this is $$($(PYTHON) --version). Say which: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "python3-venv is missing: installing it with apt-get"; \
	  (apt-get update -qq && apt-get install -y -qq python3-venv) || \
	  { echo "install python3-venv (apt-get install python3-venv) and try again"; exit 1; }; }
	@$(PYTHON) -m venv $(VENV)

# What running needs; what testing needs brings it as well.
$(BASE): $(BIN)/python pyproject.toml
	@test -e $(STAMP) || $(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

# Compiling the placement kernels once here spares the first user of `fairway replay` the wait.
$(STAMP): $(BIN)/python pyproject.toml
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	@$(BIN)/python -m fairway.scheduling.gpushare.warm
	@$(COMPILED) needs >/dev/null || (apt-get update -qq && apt-get install -y -qq gcc libc6-dev python3-dev) >/dev/null 2>&1 || true
	@echo "compiling the hot modules, a few minutes (docs/decisions/0006-compiled-modules.md)"
	@$(COMPILED) build || true
	@touch $@

# Without a C compiler everything works the same, at half the speed. After an edit Python runs the sources again.
compiled: $(STAMP)
	@$(COMPILED) build

run: $(BASE)
	@$(BIN)/fairway simulate examples/01-two-teams
	@test -e $(STAMP) || { echo; echo "Next: .venv/bin/fairway --help, the README's minute, examples/."; \
	  echo "Large worlds run twice as fast compiled: make compiled (needs a C compiler, takes some minutes)."; }

test: $(STAMP) lint types imports unit dist-test

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports --no-cache
	$(BIN)/lint-imports --no-cache --config tools/circles.toml

# The suite runs on whatever is there: compiled modules on a fresh checkout. What they replace is run as well.
unit: $(STAMP)
	$(BIN)/pytest -n 2
	FAIRWAY_COMPILED=0 $(BIN)/pytest -n 2 -q $(HOT_TESTS)

mutants: $(STAMP)
	@$(BIN)/python -m tools.mutants --seed $(or $(SEED),1) --each $(or $(EACH),20) $(ROOMS)

verify: $(STAMP)
	@$(BIN)/fairway verify all recordings

bench: $(STAMP)
	@$(BIN)/fairway bench

docs: $(STAMP)
	@$(BIN)/python -m pip install -q --disable-pip-version-check mkdocs-material
	@$(BIN)/mkdocs build -q && echo "build/site/index.html"

gallery: $(STAMP)
	@COLUMNS=100 $(BIN)/python tools/gallery.py

dist: $(STAMP)
	@rm -rf dist
	@$(BIN)/python -m hatchling build -d dist -t sdist -t wheel >/dev/null
	@if $(COMPILED) needs >/dev/null; then FAIRWAY_WHEEL=compiled $(BIN)/python -m hatchling build -d dist -t wheel >/dev/null; \
	  else echo "no compiled wheel: $$($(COMPILED) needs)"; fi
	@ls -l dist

dist-test: dist
	@PYTHON=$(PYTHON) tools/check_dist.sh

lowest: $(BIN)/python
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv
	@$(BIN)/uv venv -q --clear --python $(PYTHON) build/lowest
	@$(BIN)/uv pip install -q --python build/lowest --resolution lowest-direct -e '.[dev]'
	@FAIRWAY_COMPILED=0 build/lowest/bin/python -m pytest -n 2 -W ignore::DeprecationWarning $(LOWEST_TESTS)

lock: $(BIN)/python
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv
	@$(BIN)/uv pip compile -q --python-version 3.11 --extra dev --no-header pyproject.toml -o requirements-dev.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis dist build
	find src tests -name __pycache__ -type d -exec rm -rf {} +
