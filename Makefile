# Every target works in a fresh clone: it creates the virtual environment.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BROWSER_STAMP := $(VENV)/.browser
UV := $(shell command -v uv 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help install lock lint format test test-browser screenshots browser bench bench-scale mutants fuzz promise soak e2e up docs generate image release clean diagrams

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## Make .venv with everything that development needs

$(STAMP): pyproject.toml src/trimtab_lab/pyproject.toml requirements.lock
ifneq ($(UV),)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable . --editable src/trimtab_lab
else
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable . --editable src/trimtab_lab
endif
	@touch $@

lock: ## Resolve the dependencies of both distributions into requirements.lock (needs uv)
	@uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --group dev --group docs \
	  --no-emit-package trimtab --no-emit-package trimtab-lab \
	  --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml src/trimtab_lab/pyproject.toml
	@uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --group browser \
	  --custom-compile-command "make lock" --output-file requirements-browser.lock

lint: install ## ruff, mypy --strict, import directions
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: install ## Let ruff fix and format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

test: install ## All tests but the end-to-end suite, in two processes
	@$(BIN)/python -m pytest -m "not e2e" -n 2 --dist loadfile $(ARGS)

e2e: install ## The end-to-end suite, on a lab: the embedded one, or the binaries in CONTROL_PLANE=DIR
	@$(if $(CONTROL_PLANE),CONTROL_PLANE=$(CONTROL_PLANE)) $(BIN)/python -m pytest -m e2e tests/e2e tests/scenarios/test_walk.py $(ARGS)

test-browser: browser ## The dashboard in Debian's chromium
	@$(BIN)/python -m pytest -m browser tests/browser $(ARGS)

screenshots: browser ## Pictures of the dashboard, from labs (docs/images); needs chromium and kubectl; ARGS="--control-plane DIR"
	@$(BIN)/python -m tools.screenshots $(ARGS)

browser: $(BROWSER_STAMP)

$(BROWSER_STAMP): $(STAMP) requirements-browser.lock
ifneq ($(UV),)
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements-browser.lock
else
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-browser.lock
endif
	@touch $@

up: install ## Start a lab: API server, workload controllers, simulated nodes, and Trimtab
	@$(BIN)/trimtab lab up $(ARGS)

bench: install ## All benchmarks, or one: make bench ONLY=decode-5k; ARGS=--publish for docs/performance.md
	@$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

bench-scale: install ## The long benchmarks: make bench-scale [ONLY=growth] [CONTROL_PLANE=DIR]
	@$(BIN)/python -m bench.scale $(if $(ONLY),--only $(ONLY)) $(if $(CONTROL_PLANE),--control-plane $(CONTROL_PLANE)) $(ARGS)

mutants: install ## Small changes of the core, which tests must notice: make mutants MINUTES=10 SEED=1
	@$(BIN)/python -m tools.mutants --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1) $(ARGS)

fuzz: install ## Random input for decoders, reviews and files: make fuzz MINUTES=10 [TARGET=decoder]
	@$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),10) --seed $(or $(SEED),0) $(TARGET)

promise: install ## Scale-downs on the cluster of KUBECONFIG: make promise SCENARIO=rounds ARGS="--rounds 60"
	@$(BIN)/python -m bench.promise $(or $(SCENARIO),--help) $(ARGS)

soak: install ## Faults of every kind on a lab: make soak MINUTES=20 [SEED=n] [CONTROL_PLANE=DIR]
	@$(BIN)/python -m bench.soak --minutes $(or $(MINUTES),20) --seed $(or $(SEED),0) \
	  $(if $(CONTROL_PLANE),--control-plane $(CONTROL_PLANE)) $(ARGS)

docs: install ## Build the documentation into site/: strict, every link and anchor is checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

diagrams: install ## Draw the Mermaid diagrams that changed (needs chromium and npm)
	@$(BIN)/python -m tools.diagrams

generate: install ## Write what is generated from types and published schemas
	@$(BIN)/python -m tools.generate

BASE ?= python:3.13-slim
IMAGE ?= trimtab:$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/trimtab/__init__.py)
BUILDER ?= $(firstword $(foreach each,podman buildah docker,$(shell command -v $(each) 2>/dev/null)))

image: ## The image, with podman, buildah or docker: make image IMAGE=NAME:TAG BASE=python:3.13-slim@sha256:DIGEST
	@test -n "$(BUILDER)" || { echo "none of podman, buildah and docker is installed" >&2; exit 1; }
	@$(BUILDER) build --file Containerfile --tag $(IMAGE) --build-arg BASE=$(BASE) \
	  --build-arg VERSION=$(lastword $(subst :, ,$(IMAGE))) --build-arg REVISION=$(shell git rev-parse HEAD) \
	  --build-arg CREATED=$(shell git log -1 --format=%cI) $(ARGS) .

release: install ## Everything of a release in dist/: distributions, chart, kustomize, plugin, SBOM, checksums
	@$(BIN)/python -m tools.release $(if $(URL),--url $(URL)) $(ARGS)

clean: ## Remove what the targets made
	rm -rf $(VENV) .mutants_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/latest.json soak.json site
