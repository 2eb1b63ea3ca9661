# Every target sets up the environment that it needs; nothing else has to run first. `make help` lists them.
#
# .venv        the run-time needs and the developers' tools (dependency group "dev"): everything but bench
# .venv-bench  the same, and the frameworks that benchmarks compare with and assets are made with (groups "bench" and
#              "models"); apart from .venv, so that no test and no part of explorer comes to need them unnoticed

VENV   := .venv
BENCH  := .venv-bench
PYTHON ?=
JOBS   ?= 2
ARGS   ?=
MODEL  ?=

BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
ROOT   := $(if $(filter 0,$(shell id -u)),--allow-root)

# Some build machines forbid bytecode files: each of the many processes of the tests would compile explorer again, and
# benchmarks would time that, too.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup lab show site test check format features notebooks bench soak mutants clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  ARGS=… is handed on; PYTHON=… picks the interpreter (3.11 or newer) that a new .venv is made with"

setup: $(VENV)/.ready ## set up .venv (the other targets do it by themselves)

lab: $(VENV)/.lab ## JupyterLab on the notebooks (ARGS=--no-browser where there is no screen)
	$(BIN)/jupyter lab --notebook-dir=. --FileContentsManager.preferred_dir=notebooks $(ROOT) $(ARGS)

site: $(VENV)/.ready ## the notebooks as static pages that step: site/index.html (ARGS="-o elsewhere")
	$(BIN)/explorer site $(sort $(wildcard notebooks/*.ipynb)) --title "Explorer, step by step" $(ARGS)

show: $(VENV)/.ready ## explore a model's file: make show MODEL=net.pnnx.param
	@test -n "$(MODEL)" || { echo "make show needs a file: make show MODEL=net.pnnx.param" >&2; exit 2; }
	$(BIN)/explorer show $(MODEL) $(ARGS)

# Browser tests come second, a file at a time in each job (some open a JupyterLab). Both parts run, whatever the first says.
# Where ARGS selects tests, a part may hold none of them (pytest's status 5).
test: $(VENV)/.ready ## all tests: units, laws, notebooks (strict nbval), browser
	@status=0; failed() { test $$1 -eq $(if $(ARGS),5,0) || status=$$1; }; \
	$(PYTEST) -n $(JOBS) --dist loadscope --nbval --nbval-current-env \
		-m "not browser and not soak and not bench and not gpu" --ignore=tests/browser --ignore=tests/bench tests $(wildcard notebooks) $(ARGS) || failed $$?; \
	if test -d tests/browser; then $(PYTEST) -n $(JOBS) --dist loadfile -p no:nbval -m "browser and not soak and not gpu" tests/browser $(ARGS) || failed $$?; fi; \
	exit $$status

check: $(VENV)/.ready ## format, lint, types and prose, changing nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tests.prose
	@if command -v tsc >/dev/null; then echo "tsc: $$(tsc --version)"; tsc --project tsconfig.json; else \
		echo "NOT CHECKED: types of the front end: tsc is not in PATH (Debian: apt-get install node-typescript; npm install -g typescript)" >&2; \
	fi

format: $(VENV)/.ready ## format, and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

features: $(VENV)/.ready ## write FEATURES.md anew from the tests
	$(BIN)/python tests/test_features.py

notebooks: $(VENV)/.ready ## run the notebooks in place, without widget state and times
	$(BIN)/python tests/notebooks/execute.py $(ARGS)

soak: $(VENV)/.ready ## long runs: fuzzing, kills, every case
	$(PYTEST) -n $(JOBS) --dist loadscope -m soak tests $(ARGS)

mutants: $(VENV)/.ready ## change the code and see which tests notice (ARGS="--only plan", ARGS="--sample 20 --seed 1")
	$(BIN)/python -m tests.mutants.run $(ARGS)

bench: $(BENCH)/.ready ## benchmarks, against other frameworks too
	$(BENCH)/bin/python -m pytest -m "bench and not gpu" -s tests/bench $(ARGS)

clean: ## remove both environments and what tools left behind
	rm -rf $(VENV) $(BENCH) dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis

# JupyterLab loads the extension from a copy that an installation makes, so it is installed anew after a change.
$(VENV)/.lab: $(VENV)/.ready $(shell find explorer/lab explorer/view/static -type f -not -path "*/__pycache__/*")
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(VENV)/.ready: GROUPS := --group dev
$(BENCH)/.ready: GROUPS := --group dev --group bench --group models

# pip 25.1 is the first that knows dependency groups; the one that comes with Python may be older.
$(VENV)/.ready $(BENCH)/.ready: pyproject.toml
	@if ! $(@D)/bin/python -c "" 2>/dev/null; then \
		new='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'; \
		for python in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
			if $$python -c "$$new" 2>/dev/null; then found=$$python; break; fi; \
		done; \
		if test -z "$$found"; then \
			echo "explorer needs Python 3.11 or newer, with its venv module; $(or $(PYTHON),python3) is" \
				"$$($(or $(PYTHON),python3) --version 2>&1 | head -n 1)." >&2; \
			echo "Install one (Debian: apt-get install python3 python3-venv), or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; \
			exit 1; \
		fi; \
		echo "$(@D): $$($$found --version)"; \
		$$found -m venv --clear $(@D); \
	fi
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable . $(GROUPS)
	@touch $@
