# Every target makes what it needs: an environment in .venv, from python3 and a package index.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test test-peers test-models reproduce fashion-mnist test-browser chromium docs lint bench clean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.venv/demo: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[plots,sklearn]'
	touch $@

.venv/test: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[test]'
	touch $@

.venv/peers: .venv/test
	$(BIN)/pip install --quiet --editable '.[peers]'
	touch $@

.venv/models: .venv/test
	$(BIN)/pip install --quiet --editable '.[models]'
	touch $@

demo: .venv/demo  ## errors of two classifiers on the digits, and a picture of them
	$(BIN)/python examples/digits.py reliability.png

test: lint  ## lint, types, import rules, doctests and tests
	$(BIN)/python -m pytest -q -n auto

test-peers: .venv/peers  ## baselines against independent implementations from the package index
	$(BIN)/python -m pytest -q tests/peers

fashion-mnist:
	@[ -d /usr/share/datasets/fashion-mnist ] || [ "$$(id -u)" != 0 ] || { apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes dataset-fashion-mnist > /dev/null; }

test-models: .venv/models fashion-mnist  ## prediction files from image and text models, trained ones too
	$(BIN)/python -m pytest -q tests/models

reproduce: .venv/test  ## the paper's tables and figures beside the published ones; hours, resumable
	$(BIN)/python -m experiments all

chromium:
	@command -v chromium > /dev/null || [ "$$(id -u)" != 0 ] || { apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends \
	  chromium fonts-dejavu-core > /dev/null; }
	@command -v chromium > /dev/null || { echo "Chromium is needed: apt install chromium" >&2; exit 1; }

test-browser: .venv/test chromium  ## the HTML report in a headless Chromium, which root installs
	$(BIN)/python -m pytest -q tests/browser

.venv/docs: .venv/test
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $@

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
	rm -rf .venv site docs/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
