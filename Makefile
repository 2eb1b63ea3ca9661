# Every target creates the environment that it needs. `make help` lists the targets.
#
# .venv        runtime dependencies and development tools (dependency group "dev"), for all targets except bench and hosts
# .venv-bench  also the frameworks for benchmarks and assets (groups "bench" and "models")
# .venv-hosts  also the programs that show views, such as marimo and Sphinx (group "hosts")
#
# The environments are separate, so that tests and explorer cannot depend on these packages by accident.

VENV   := .venv
BENCH  := .venv-bench
HOSTS  := .venv-hosts
PYTHON ?=
JOBS   ?= 2
ARGS   ?=
MODEL  ?=

# tests of values, which also run with compiled kernels
COMPILED := $(addprefix tests/laws/test_,$(addsuffix .py,bound_kernels half_precision kernels movement numerics zeros) \
		numpy.py::test_a_function_of_an_expression_equals_numpys_or_raises_an_error \
		shapes.py::test_operations_along_axes_of_any_shapes shapes.py::test_products_of_any_shapes) \
	tests/soak/test_numbers.py tests/soak/test_onnx_suite.py

BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
ROOT   := $(if $(filter 0,$(shell id -u)),--allow-root)

# Some build machines disable bytecode files. Each process of the tests would then compile explorer again, and benchmarks
# would include this time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup lab show docs test check format features notebooks bench hosts soak mutants clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  ARGS=… passes options on; PYTHON=… selects the interpreter (3.11 or newer) for a new .venv"

setup: $(VENV)/.ready ## create .venv (other targets do this automatically)

lab: $(VENV)/.lab ## open JupyterLab on the notebooks (ARGS=--no-browser without a screen)
	$(BIN)/jupyter lab --notebook-dir=. --FileContentsManager.preferred_dir=notebooks $(ROOT) $(ARGS)

docs: $(VENV)/.ready ## build the documentation site, build/site/index.html
	$(BIN)/python assets/documentation/build.py

show: $(VENV)/.ready ## explore a model file: make show MODEL=net.pnnx.param
	@test -n "$(MODEL)" || { echo "make show needs a model file: make show MODEL=net.pnnx.param" >&2; exit 2; }
	$(BIN)/explorer show $(MODEL) $(ARGS)

# Browser tests run second, with one file per job at a time, because some start JupyterLab. They also run after failures
# of the first part. If ARGS selects tests, a part may have none (pytest's status 5).
test: $(VENV)/.ready ## run all tests: units, laws, notebooks (strict nbval), browser
	@status=0; failed() { test $$1 -eq $(if $(ARGS),5,0) || status=$$1; }; \
	$(PYTEST) -n $(JOBS) --dist loadscope --nbval --nbval-current-env \
		-m "not browser and not soak and not bench and not gpu and not hosts" --ignore=tests/browser --ignore=tests/bench tests $(wildcard notebooks) $(ARGS) || failed $$?; \
	if test -d tests/browser; then $(PYTEST) -n $(JOBS) --dist loadfile -p no:nbval -m "browser and not soak and not gpu" tests/browser $(ARGS) || failed $$?; fi; \
	exit $$status

check: $(VENV)/.ready ## check format, lint, types and prose without changes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tests.prose
	@if command -v tsc >/dev/null; then echo "tsc: $$(tsc --version)"; tsc --project tsconfig.json; else \
		echo "NOT CHECKED: types of the front end: tsc is not in PATH (Debian: apt-get install node-typescript; npm install -g typescript)" >&2; \
	fi

format: $(VENV)/.ready ## format, and fix lint errors
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

features: $(VENV)/.ready ## write FEATURES.md from the tests
	$(BIN)/python tests/test_features.py

notebooks: $(VENV)/.ready ## run the notebooks in place, and remove widget state and times
	$(BIN)/python tests/notebooks/execute.py $(ARGS)

# The second part compiles the kernels of all plans, and also runs after failures of the first part.
soak: $(VENV)/.ready ## run long tests: fuzzing, killed saves, every case, and values of compiled kernels
	@status=0; failed() { test $$1 -eq $(if $(ARGS),5,0) || status=$$1; }; \
	$(PYTEST) -n $(JOBS) --dist loadscope --ignore=tests/bench --ignore=tests/hosts -m soak tests $(ARGS) || failed $$?; \
	EXPLORER_TEST_KERNELS=native EXPLORER_SOAK_NUMBERS=0.25 $(PYTEST) -n $(JOBS) --dist loadscope \
		-m "not numpy_bits" $(COMPILED) $(ARGS) || failed $$?; \
	exit $$status

mutants: $(VENV)/.ready ## change the code, and list changes that no test detects (ARGS="--only plan", ARGS="--sample 20 --seed 1")
	$(BIN)/python -m tests.mutants.run $(ARGS)

bench: $(BENCH)/.ready ## run benchmarks, also of other frameworks
	$(BENCH)/bin/python -m pytest -m "bench and not gpu" -s tests/bench $(ARGS)

hosts: $(HOSTS)/.ready ## open views in marimo, Solara, Sphinx and other hosts
	$(HOSTS)/bin/python -m pytest -m hosts tests/hosts $(ARGS)

clean: ## remove all environments and all generated files
	rm -rf $(VENV) $(BENCH) $(HOSTS) dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis

# JupyterLab loads an installed copy of the extension, so it is installed again after a change.
$(VENV)/.lab: $(VENV)/.ready $(shell find explorer/lab explorer/view/static -type f -not -path "*/__pycache__/*")
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(VENV)/.ready: GROUPS := --group dev
$(BENCH)/.ready: GROUPS := --group dev --group bench --group models
$(HOSTS)/.ready: GROUPS := --group dev --group hosts

# pip supports dependency groups since 25.1, and Python may include an older version.
$(VENV)/.ready $(BENCH)/.ready $(HOSTS)/.ready: pyproject.toml
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
