# One command a task. `make test` is what CI runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
HOT_TESTS := tests/cluster tests/scheduling tests/twin/kubelet tests/workloads/test_job_controller.py \
  tests/queueing tests/twin/kueue
COMPILED := $(BIN)/python -m fairway.compiled

.PHONY: help run test lint types imports unit verify bench compiled clean

help:
	@echo "make run     play the demo scenario end to end and print its report"
	@echo "make test    lint, types, import direction and tests: what CI runs"
	@echo "make verify  replay the recordings of the real engines: how many cases agree"
	@echo "make bench   run the benchmarks"
	@echo "make compiled   compile the hot modules again after an edit: simulations twice as fast"
	@echo "make clean   remove .venv and caches"

# Debian splits venv out of python3; ensure it where we may, say so where we may not.
# Compiling the placement kernels once here spares the first user of `fairway replay` the wait.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "python3-venv is missing: installing it with apt-get"; \
	  (apt-get update -qq && apt-get install -y -qq python3-venv) || \
	  { echo "install python3-venv (apt-get install python3-venv) and try again"; exit 1; }; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Fairway needs Python 3.11 or newer"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	@$(BIN)/python -m fairway.scheduling.gpushare.warm
	@$(COMPILED) needs >/dev/null || (apt-get update -qq && apt-get install -y -qq gcc libc6-dev python3-dev) >/dev/null 2>&1 || true
	@echo "compiling the hot modules, a few minutes (docs/decisions/0006-compiled-modules.md)"
	@$(COMPILED) build || true
	@touch $@

# Without a C compiler everything works the same, at half the speed. After an edit Python runs the sources again.
compiled: $(STAMP)
	@$(COMPILED) build

run: $(STAMP)
	@$(BIN)/fairway simulate examples/01-two-teams

test: $(STAMP) lint types imports unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports --no-cache

# The suite runs on whatever is there: compiled modules on a fresh checkout. What they replace is run as well.
unit: $(STAMP)
	$(BIN)/pytest -n 2
	FAIRWAY_COMPILED=0 $(BIN)/pytest -n 2 -q $(HOT_TESTS)

verify: $(STAMP)
	@$(BIN)/fairway verify all recordings

bench: $(STAMP)
	@$(BIN)/fairway bench

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis dist build
	find src tests -name __pycache__ -type d -exec rm -rf {} +
