# The only thing needed to start is Python 3.10 or newer; everything else goes into $(VENV).
PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
BIN    := $(VENV)/bin
PY     := $(BIN)/python
PIP    := $(PY) -m pip install --quiet --disable-pip-version-check
# What an installed copy depends on besides the sources, which an editable install sees at once.
INPUTS := pyproject.toml setup.py $(wildcard dtrdiag/simulator/csrc/*)

# Two stamps: .core is dtrdiag with what it needs to run and to keep results; .dev adds the extras
# for tests and lint.
CORE   := $(VENV)/.core
DEV    := $(VENV)/.dev

# The tests start Python hundreds of times: what one start has compiled the others take.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test torch test-slow sanitize lint bench docs clean
.NOTPARALLEL:              # two pip calls in one environment would tread on each other

help:                      ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	  while IFS='|' read -r target text; do printf '%-18s %s\n' "$$target" "$$text"; done

demo: $(CORE)              ## the main job on a bundled trace, from start to findings
	$(PY) -m dtrdiag quickstart

test: $(DEV)               ## the default tests, on all cores (ARGS='-k name' reaches pytest)
	$(BIN)/pytest -n auto $(ARGS)

# The release whose operators the tests know. Without it the tests of PyTorch programs skip.
TORCH  ?= torch==2.13.0

torch: $(DEV)              ## add PyTorch to the environment (TORCH=... for another release)
	@$(PY) -c 'import torch' 2>/dev/null || $(PIP) '$(TORCH)'

test-slow: $(DEV)          ## the long-running tests
	$(BIN)/pytest -m slow $(ARGS)

# The engine once more, in a tree of its own, with every check that the compiler has. Python itself is
# not built that way, so the runtime of the sanitizer comes first by LD_PRELOAD, and leaks, of which
# the interpreter has many, are not looked for.
SANITIZE := build/sanitize
CHECKED  := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
STRICT   := -Wall -Wextra -Wconversion -Werror
SANITIZED = PYTHONPATH="$$PWD" DTRDIAG_NATIVE=1 ASAN_OPTIONS=detect_leaks=0 \
  LD_PRELOAD="$(foreach lib,asan ubsan stdc++,$$($(CXX) -print-file-name=lib$(lib).so))" \
  $(abspath $(PY))
ENGINE_TESTS := tests/simulator/test_engines.py tests/simulator/test_native_interventions.py \
  tests/simulator/test_score_arithmetic.py tests/simulator/test_goldens.py -k 'not python_engine and not same_log'

sanitize: $(DEV)           ## the tests of the compiled engine under ASan and UBSan
	@rm -rf $(SANITIZE) && mkdir -p $(SANITIZE)
	@cp -r setup.py pyproject.toml README.md LICENSE dtrdiag tests $(SANITIZE)
	@rm -f $(SANITIZE)/dtrdiag/simulator/_native*.so
	@cp -r instrumentation analyses $(SANITIZE) && cp -r instrumentation analyses $(SANITIZE)/dtrdiag
	cd $(SANITIZE) && DTRDIAG_NATIVE=1 DTRDIAG_NATIVE_FLAGS='$(CHECKED) $(STRICT)' \
	  $(abspath $(PY)) setup.py --quiet build_ext --inplace
	@rm -r $(SANITIZE)/instrumentation $(SANITIZE)/analyses
	cd $(SANITIZE) && $(SANITIZED) -c 'import os, dtrdiag.simulator._native as it; \
	  raise SystemExit(not it.__file__.startswith(os.getcwd()))'
	cd $(SANITIZE) && $(SANITIZED) -m pytest -p no:cacheprovider -n auto $(ENGINE_TESTS) $(ARGS)

bench: $(CORE)             ## measure speed and memory
	$(PY) benchmarks/run.py $(ARGS)

docs: $(DEV)               ## the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir build/site
	@echo "open build/site/index.html"

# mypy and import-linter look for modules by folder and do not know package-dir, so they get the
# tree in its installed shape, made of links.
LAYOUT := build/layout
PARTS   = $(filter-out dtrdiag/__pycache__,$(wildcard dtrdiag/*)) instrumentation analyses

lint: $(DEV)               ## style, types and layers
	$(BIN)/ruff check .
	@rm -rf $(LAYOUT) && mkdir -p $(LAYOUT)/dtrdiag
	@ln -s $(abspath $(PARTS)) $(LAYOUT)/dtrdiag/
	@ln -s $(abspath tests pyproject.toml) $(LAYOUT)/
	cd $(LAYOUT) && $(abspath $(BIN))/mypy --cache-dir $(abspath .mypy_cache) dtrdiag tests
	cd $(LAYOUT) && $(abspath $(BIN))/lint-imports --cache-dir $(abspath .import_linter_cache)

clean:                     ## remove the environment and all that was built
	rm -rf $(VENV) build dist dtrdiag.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(CORE): $(VENV)/.created $(INPUTS)
	@rm -f dtrdiag/simulator/_native*.so
	$(PIP) -e '.[parquet,report]'
	@touch $@

$(DEV): $(VENV)/.created $(INPUTS)
	@rm -f dtrdiag/simulator/_native*.so
	$(PIP) -e '.[test,lint]'
	@touch $(CORE) $@

# Three ways to an environment with pip, because Debian ships Python without ensurepip: venv as it
# should be; an empty one that the system's pip fills; uv.
define MAKE_VENV
{ rm -rf $(VENV); $(PYTHON) -m venv $(VENV); } >/dev/null 2>&1 || \
{ rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV) && \
  site=$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
  $(PYTHON) -m pip install --quiet --disable-pip-version-check --target "$$site" pip; } 2>/dev/null || \
{ rm -rf $(VENV); uv venv --quiet --seed --python $(PYTHON) $(VENV); } 2>/dev/null || \
{ rm -rf $(VENV); echo "error: no venv, pip or uv to work with (Debian: apt install python3-venv)" >&2; exit 1; }
endef

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "error: Python 3.10 or newer is needed; name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(MAKE_VENV)
	@touch $@
