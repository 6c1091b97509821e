# Everything a developer or a newcomer runs. `make` alone lists it.

PYTHON ?= python3
VENV ?= .venv

PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --disable-pip-version-check --quiet
QUICKSTART := $(VENV)/quickstart.stamp
TEST := $(VENV)/test.stamp
TESTS ?= tests
LATE := tests/cluster tests/ui

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env labextension quickstart lab lint test test-face test-ui pictures test-all coverage test-early test-late bench cluster kueue images cluster-down clean

help:  ## list what there is
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1~\2/p' Makefile | awk -F'~' '{ printf "%-14s %s\n", $$1, $$2 }'

# ---------------------------------------------------------------------------- environment

env: $(TEST)  ## make .venv with all that development needs (once)

$(PY):
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "There is no $(PYTHON). Install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@"$(PYTHON)" -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and \
	  f"Python 3.11 or newer is needed, and $(PYTHON) is {v[0]}.{v[1]}. Name another: make PYTHON=python3.12")'
	@"$(PYTHON)" -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

# A stamp says with which pyproject.toml the environment was installed last.
$(QUICKSTART): pyproject.toml | $(PY)
	@echo "Installing into $(VENV) what the quick start needs. Once; it takes a few minutes."
	@$(PIP) -e '.[quickstart]'
	@touch $@

$(TEST): pyproject.toml | $(PY)
	@echo "Installing into $(VENV) what the tests need. Once; it takes a few minutes."
	@$(PIP) -e '.[test]'
	@touch $(QUICKSTART) $@

# Node's packages, by the versions in yarn.lock. jlpm comes with jupyter-builder.
WITH_TOOLS := cd labextension && PATH="$(abspath $(VENV))/bin:$$PATH"
LINK := $(VENV)/share/jupyter/labextensions/jupyter-jax-trainer

labextension/node_modules: labextension/package.json labextension/yarn.lock | $(TEST)
	@command -v node >/dev/null || { echo "There is no node. Install Node 20 or newer: it builds the JupyterLab extension."; exit 1; }
	$(WITH_TOOLS) jlpm install --immutable
	@touch $@

# The link lets JupyterLab in .venv see what was built last.
labextension: labextension/node_modules  ## build the JupyterLab extension (needs Node 20)
	$(WITH_TOOLS) npm run -s build:prod
	@rm -rf $(LINK) && mkdir -p $(dir $(LINK)) && ln -s '$(CURDIR)/jupyter_jax_trainer/labextension' $(LINK)

# ---------------------------------------------------------------------------- use

quickstart: $(QUICKSTART)  ## train a real model with the quick-start notebook (two minutes)
	@echo "Running docs/quickstart.ipynb: two processes of two devices train a network on this machine."
	@mkdir -p build
	@JUPYTER_PREFER_ENV_PATH=1 $(PY) -m nbconvert --log-level WARN --to notebook --execute \
	  --output-dir build --output quickstart.ipynb docs/quickstart.ipynb
	@echo
	@$(PY) docs/show_outputs.py build/quickstart.ipynb
	@echo
	@echo "It works. The notebook with its curves and pictures: build/quickstart.ipynb"
	@echo "Try it yourself:  make lab    See the job again:  $(VENV)/bin/jaxtrain show digits"

lab: $(QUICKSTART)  ## open JupyterLab on the quick-start notebook
	$(PY) -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) docs/quickstart.ipynb

# ---------------------------------------------------------------------------- checks

lint: $(TEST)  ## ruff and mypy
	$(PY) -m ruff check
	$(PY) -m mypy

test-face: labextension  ## lint and test the TypeScript
	$(WITH_TOOLS) npm run -s lint
	$(WITH_TOOLS) npm test -s

test-ui: labextension  ## test in a real browser (needs Chromium), with a real JupyterLab and real jobs
	$(PY) -m pytest -rs tests/ui

pictures: labextension  ## make the pictures in docs/images anew, from real jobs; look at what changed
	JAXTRAIN_PICTURES=1 $(PY) -m pytest -rs tests/ui/test_docs_*pictures.py

test: lint  ## what to run before a commit (minutes): ruff, mypy, and the tests that are not slow
	$(PY) -m pytest -rs -m 'not slow' $(TESTS)

test-all: test-early test-late  ## everything: slow tests, every notebook, the quick start, the TypeScript

# Not in CI: all programs that the tests start take longer then.
coverage:  ## the same, and which lines of the package were run
	$(MAKE) test-all COVERAGE=1

# In two parts, so that CI can begin while the cluster is still being built; the first needs no browser, either.
test-early: lint test-face
	$(PY) -m pytest -rs $(if $(COVERAGE),--cov --cov-report=) tests/unit
	$(PY) -m pytest -rs $(if $(COVERAGE),--cov --cov-append --cov-report=) tests/local tests/server

# A quick start with a job store of its own, so that CI leaves nothing in the user's.
test-late: labextension
	rm -rf build/jobs && mkdir -p build/jobs
	$(MAKE) quickstart JAXTRAIN_HOME='$(CURDIR)/build/jobs'
	$(PY) -m pytest -rs $(if $(COVERAGE),--cov --cov-append --cov-report=term:skip-covered --cov-report=xml) $(LATE)

bench: $(TEST)  ## measure, and compare with bare scripts (benchmarks/)
	$(PY) benchmarks/run.py

# ---------------------------------------------------------------------------- Kubernetes

# Linux and root. Its last line of output is the path of the kubeconfig. PYTHON alone does: no environment is needed.
cluster:  ## start a real Kubernetes with Kubeflow Trainer here (first time: 8 to 15 minutes)
	@"$(PYTHON)" tests/cluster/harness/up.py

# Only tests/cluster/test_queues.py needs it, and puts it into the cluster for a while.
kueue:  ## build Kueue for the tests of queues (first time: 4 to 8 minutes), after `make cluster`
	@"$(PYTHON)" tests/cluster/harness/kueue.py build

images: $(TEST)  ## build the worker images for all devices (15 GB), and try each, after `make cluster`
	$(PY) -m pytest -rs tests/cluster/test_images.py

cluster-down:  ## stop it, and remove all that it made but the cache
	@"$(PYTHON)" tests/cluster/harness/down.py

# ----------------------------------------------------------------------------

clean:  ## remove what was built; .venv and .venvs too
	rm -rf labextension/lib labextension/node_modules jupyter_jax_trainer/labextension
	rm -rf $(VENV) .venvs build dist .coverage .coverage.* coverage.xml .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
