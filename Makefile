# `make demo` and `make test` need only Python 3.11 or newer (and apt, where a package is missing).
# PYTHON=... names the Python that .venv is made with; JOBS=... the number of test processes.

PYTHON ?=
JOBS ?= auto
VENV := .venv
PY := $(VENV)/bin/python
STAMPS := $(VENV)/.stamps
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
PYTEST := $(PY) -m pytest -n $(JOBS) --maxprocesses 8

.PHONY: help demo test test-all lint bench docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      blur a photograph and find its edges, checked against SciPy"
	@echo "make test      ruff, mypy and the tests"
	@echo "make test-all  the same at full size"
	@echo "make lint      ruff and mypy only"
	@echo "make bench     the benchmarks"
	@echo "make docs      write the pages that are made from the code"
	@echo "make clean     remove .venv and what was built"

# A stamp stands for one installed set; it is renewed when the dependencies change. The installation is editable, so a change
# of the sources needs no new one. It has no bytecode either, which is made here.
$(PY):
	@tools/venv.sh $(VENV) $(PYTHON)

$(STAMPS)/demo: pyproject.toml | $(PY)
	@echo "installing magpie for the demo"
	@$(PIP) --editable '.[demo]'
	@$(PY) -m compileall -q src
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/test: pyproject.toml | $(PY)
	@echo "installing magpie and what its tests need"
	@$(PIP) --editable '.[demo,test]'
	@$(PY) -m compileall -q src
	@mkdir -p $(STAMPS) && touch $@

# Checked on every run: it is quick, and a package may have been removed.
.PHONY: packages
packages: packages.apt
	@tools/apt.sh packages.apt

demo: $(STAMPS)/demo
	@$(PY) -m examples.demo

lint: $(STAMPS)/test
	$(PY) -m ruff check .
	$(PY) -m mypy

test: packages lint
	$(PYTEST) tests

test-all: packages lint
	MAGPIE_TEST_ALL=1 $(PYTEST) tests

bench: packages $(STAMPS)/test
	@set -e; for file in $(sort $(wildcard benchmarks/bench_*.py)); do echo "== $$file"; $(PY) $$file; done

docs: $(STAMPS)/test
	@$(PY) tools/gen_docs.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
