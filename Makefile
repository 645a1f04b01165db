# Every target makes what it needs: an environment in .venv, from python3 and a package index.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test test-lowest lock fuzz test-peers test-models test-torch test-clusters java reproduce fashion-mnist training-data training test-browser chromium docs lint bench clean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.venv/demo: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[plots,sklearn]'
	touch $@

# Dependency groups need pip 25.1.
.venv/test: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --editable . --group test
	touch $@

# Further groups, each on top of the tests' environment.
.venv/peers .venv/torch .venv/clusters .venv/docs: .venv/%: .venv/test
	$(BIN)/pip install --quiet --group $*
	touch $@

demo: .venv/demo  ## errors of two classifiers on the digits, and a picture of them
	$(BIN)/python examples/digits.py reliability.png

# One thread per process: with a process per core, more would only wait for each other.
test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: lint  ## lint, types, import rules, doctests and tests
	$(BIN)/python -m pytest -q -n auto --dist worksteal

test-lowest: .venv-lowest/ready  ## the tests with the lowest versions of all dependencies
	.venv-lowest/bin/python -m pytest -q -n auto --dist worksteal

.venv-lowest/ready: pyproject.toml requirements/lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet --editable . --requirement requirements/lowest.txt
	touch $@

lock:  ## write requirements/lock.txt: the newest versions of all that the tests need
	$(PYTHON) -m venv --clear .venv-lock
	.venv-lock/bin/pip install --quiet --upgrade 'pip>=25.1'
	.venv-lock/bin/pip install --quiet --editable . --group test
	{ echo "# What developers had when the tests last passed: make lock"; \
	  .venv-lock/bin/pip freeze --exclude-editable --exclude riskalign; } > requirements/lock.txt
	rm -rf .venv-lock

fuzz: .venv/test  ## 100,000 random calls, then ten minutes of random bytes for readers; hours
	$(BIN)/python tests/fuzz/run.py --calls 100000 --minutes 10

test-peers: .venv/peers  ## baselines against independent implementations from the package index
	$(BIN)/python -m pytest -q tests/peers

java:
	@command -v java > /dev/null || [ "$$(id -u)" != 0 ] || { apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends \
	  openjdk-17-jre-headless > /dev/null; }
	@command -v java > /dev/null || { echo "Spark needs Java: apt install openjdk-17-jre-headless" >&2; exit 1; }

test-clusters: .venv/clusters java  ## sketches on Dask and Spark, with workers that die
	$(BIN)/python -m pytest -q tests/clusters

fashion-mnist:
	@[ -d /usr/share/datasets/fashion-mnist ] || [ "$$(id -u)" != 0 ] || { apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes dataset-fashion-mnist > /dev/null; }

# Data of experiments/training.py.
training-data: fashion-mnist
	@[ -d /usr/share/games/fortunes ] || [ "$$(id -u)" != 0 ] || { apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes fortunes > /dev/null; }

training: .venv/torch training-data  ## the study of losses to train with; about an hour, resumable
	$(BIN)/python -m experiments.training

# An environment of its own: torchvision is published for CUDA alone, and beside torch for the
# processor it breaks what imports it by itself, such as torchmetrics.
.venv-models/ready: pyproject.toml
	$(PYTHON) -m venv .venv-models
	.venv-models/bin/pip install --quiet --upgrade 'pip>=25.1'
	.venv-models/bin/pip install --quiet --editable . --group test --group models
	touch $@

test-models: .venv-models/ready fashion-mnist  ## prediction files from image and text models, trained ones too
	.venv-models/bin/python -m pytest -q tests/models

test-torch: .venv/torch  ## the metric and the loss for PyTorch, and their page of the documentation
	$(BIN)/python -m pytest -q tests/torch src/riskalign/torch

reproduce: .venv/test  ## the paper's tables and figures beside the published ones; hours, resumable
	$(BIN)/python -m experiments all

chromium:
	@command -v chromium > /dev/null || [ "$$(id -u)" != 0 ] || { apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends \
	  chromium fonts-dejavu-core > /dev/null; }
	@command -v chromium > /dev/null || { echo "Chromium is needed: apt install chromium" >&2; exit 1; }

test-browser: .venv/test chromium  ## the HTML report in a headless Chromium, which root installs
	$(BIN)/python -m pytest -q tests/browser

docs: .venv/docs  ## the documentation in site/, its code run and its pictures made
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

lint: .venv/test  ## style, types and import rules alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/peers  ## speed and memory as ratios in one run, against peers
	$(BIN)/python -m benchmarks.run --keep

clean:  ## remove the environment and what tools leave behind
	rm -rf .venv .venv-lowest .venv-models site docs/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
