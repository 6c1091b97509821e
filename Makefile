# Everything a developer or a newcomer runs. `make` alone lists it.

PYTHON ?= python3
VENV ?= .venv

# Byte code is kept: tests start thousands of processes, and without it jax takes four times as long to import.
unexport PYTHONDONTWRITEBYTECODE

PY := $(VENV)/bin/python
# What is never imported need not be compiled.
PIP := $(PY) -m pip install --disable-pip-version-check --quiet --no-compile
QUICKSTART := $(VENV)/quickstart.stamp
TEST := $(VENV)/test.stamp
DOCS := $(VENV)/docs.stamp
LIBRARIES := $(VENV)/libraries.stamp
TESTS ?= tests

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env labextension quickstart lab lint docs test test-face test-ui pictures test-all test-local test-cluster test-release coverage bench cluster kueue images requirements cluster-down clean

help:  ## list the targets
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1~\2/p' Makefile | awk -F'~' '{ printf "%-14s %s\n", $$1, $$2 }'

# ---------------------------------------------------------------------------- environment

env: $(TEST) $(DOCS)  ## create .venv with everything that development needs (once)

$(PY):
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "There is no $(PYTHON). Install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@"$(PYTHON)" -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and \
	  f"Python 3.11 or newer is needed, and $(PYTHON) is {v[0]}.{v[1]}. Name another: make PYTHON=python3.12")'
	@"$(PYTHON)" -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

# A stamp says with which pyproject.toml the environment was installed last.
$(QUICKSTART): pyproject.toml | $(PY)
	@echo "Installing into $(VENV) what the quick start needs. Once; it takes a few minutes."
	@$(PIP) -e '.[quickstart,labextension]'
	@touch $@

$(TEST): pyproject.toml | $(PY)
	@echo "Installing into $(VENV) what the tests need. Once; it takes a few minutes."
	@$(PIP) -e '.[test]'
	@touch $(QUICKSTART) $@

$(DOCS): pyproject.toml | $(PY)
	@$(PIP) -e '.[docs]'
	@touch $@

# What some notebooks of the tests for releases use.
$(LIBRARIES): pyproject.toml | $(TEST)
	@$(PIP) -e '.[libraries]'
	@touch $@

# Node comes as a Python package, and jlpm, its package manager, with jupyter-builder.
WITH_TOOLS := $(PY) labextension/build.py run
LINK := $(VENV)/share/jupyter/labextensions/jupyter-jax-trainer
FACE := labextension labextension/node_modules

# The link lets JupyterLab in .venv see what was built last.
labextension: $(QUICKSTART)  ## build the JupyterLab extension if its sources changed
	@$(PY) labextension/build.py
	@[ -L $(LINK) ] || { rm -rf $(LINK) && mkdir -p $(dir $(LINK)) && \
	  ln -s '$(CURDIR)/jupyter_jax_trainer/labextension' $(LINK); }

# Packages of its tests, by the versions in yarn.lock; those that build it are the same.
labextension/node_modules: labextension/package.json labextension/yarn.lock | $(TEST)
	$(WITH_TOOLS) jlpm install --immutable
	@touch $@

# ---------------------------------------------------------------------------- use

quickstart: $(QUICKSTART)  ## train a real model with the quick-start notebook (two minutes)
	@echo "Running docs/start/quickstart.ipynb: two processes of two devices train a network on this machine."
	@mkdir -p build
	@JUPYTER_PREFER_ENV_PATH=1 $(PY) -m nbconvert --log-level WARN --to notebook --execute \
	  --output-dir build --output quickstart.ipynb docs/start/quickstart.ipynb
	@echo
	@$(PY) docs/show_outputs.py build/quickstart.ipynb
	@echo
	@echo "It works. The notebook with its curves and pictures: build/quickstart.ipynb"
	@echo "Try it yourself:  make lab    See the job again:  $(VENV)/bin/jaxtrain show digits"

lab: labextension  ## open JupyterLab on the quick-start notebook
	$(PY) -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) docs/start/quickstart.ipynb

# ---------------------------------------------------------------------------- checks

lint: $(TEST) labextension/node_modules  ## run ruff, mypy and prettier
	$(PY) -m ruff format --check
	$(PY) -m ruff check
	$(PY) -m mypy
	$(WITH_TOOLS) jlpm prettier --check .

# Strict: a broken link, a missing anchor or an unknown name of the public API is an error.
docs: $(DOCS)  ## build the documentation site into build/docs
	$(PY) -m sphinx --fail-on-warning --keep-going --quiet --fresh-env -d build/doctrees docs build/docs

test-face: labextension/node_modules  ## lint and test the TypeScript
	$(WITH_TOOLS) jlpm run lint
	$(WITH_TOOLS) jlpm run test

test-ui: $(FACE)  ## test JupyterLab in a real browser (needs Chromium)
	$(PYTEST) $(CHOSEN)' tests/ui

pictures: $(FACE)  ## retake the pictures in docs/images from real jobs; look at what changed
	JAXTRAIN_PICTURES=1 $(PY) -m pytest -rs tests/ui/test_docs_*pictures.py

# The tests run in as many processes as this; those of a file stay together.
JOBS ?= 2
PYTEST := $(PY) -m pytest -rs -n $(JOBS) --dist loadfile --no-loadscope-reorder
CHOSEN := -m 'not release

test: lint $(FACE)  ## before a commit (minutes): lint, and tests that are not slow
	$(PYTEST) $(CHOSEN) and not slow' $(TESTS)

test-all: lint test-face test-local test-cluster  ## all tests except those for releases; after `make cluster`

# Every test that needs no cluster, and the quick start, which has a job store of its own here.
test-local: $(FACE)
	rm -rf build/jobs && mkdir -p build/jobs
	$(MAKE) quickstart JAXTRAIN_HOME='$(CURDIR)/build/jobs'
	$(PYTEST) $(COVER) $(CHOSEN) and not cluster' $(TESTS)

test-cluster: $(FACE)
	$(PYTEST) $(COVER) $(CHOSEN) and cluster' $(TESTS)

test-release: $(FACE) $(LIBRARIES)  ## tests for releases: images (16 GB), tutorials, pictures, long faults; after `make cluster`
	$(PYTEST) -m release $(TESTS)

# Not in CI: all programs that the tests start take longer then.
coverage: export COVERAGE_FILE = $(CURDIR)/.coverage
coverage:  ## test-all with coverage
	$(MAKE) test-all COVER='--cov --cov-append --cov-report=term:skip-covered --cov-report=xml'

bench: $(TEST)  ## run the benchmarks
	$(PY) benchmarks/run.py

# ---------------------------------------------------------------------------- Kubernetes

# Linux and root. Its last line of output is the path of the kubeconfig. PYTHON alone does: no environment is needed.
cluster:  ## start a real Kubernetes with Kubeflow Trainer (first time: 8 to 15 minutes)
	@"$(PYTHON)" tests/cluster/harness/up.py

# Only tests/cluster/test_queues.py needs it, and puts it into the cluster for a while.
kueue:  ## build Kueue for the queue tests (first time: 4 to 8 minutes); after `make cluster`
	@"$(PYTHON)" tests/cluster/harness/kueue.py build

images: $(TEST)  ## build and try all worker images (16 GB); after `make cluster`
	$(PY) -m pytest -rs tests/cluster/test_images.py

requirements: $(TEST)  ## update hashes in the requirements.txt of images and releases, and what runtimes say of images
	@$(PIP) 'uv>=0.13,<1'
	@for list in cpu/requirements cuda/requirements tpu/requirements standard; do \
	  $(VENV)/bin/uv pip compile --quiet --no-deps --generate-hashes --no-annotate \
	  --python-version 3.11 --custom-compile-command 'make requirements' \
	  --output-file images/$$list.txt images/$$list.in || exit 1; done
	@$(PY) images/packages.py
	@$(VENV)/bin/uv pip compile --quiet --generate-hashes --no-annotate \
	  --python-version 3.12 --custom-compile-command 'make requirements' \
	  --output-file .github/requirements.txt .github/requirements.in

cluster-down:  ## remove the cluster, except its cache
	@"$(PYTHON)" tests/cluster/harness/down.py

# ----------------------------------------------------------------------------

clean:  ## remove what was built, .venv and .venvs included
	rm -rf labextension/lib labextension/node_modules jupyter_jax_trainer/labextension
	rm -rf $(VENV) .venvs build dist .coverage .coverage.* coverage.xml .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
