# The one list of commands. `make help` explains each; every target sets itself up.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv
STAMP  := $(VENV)/.ready
DRIVER_VENV := .venv-driver
DRIVER_STAMP := $(DRIVER_VENV)/.ready
# More workers than cores: tests wait. Those of a file share what they start, but for the driver's.
PYTEST := -m pytest -n 4 --dist loadfile --no-loadscope-reorder
# Of all files a worker knows the tests after 5.9 s, of these after 3.7.
ON_KUBERNETES = $(sort $(shell grep -rl --include='test_*.py' 'mark\.kubernetes' tests))
PYTEST_DRIVER := -m pytest -n 4 --dist worksteal

# Else every process that a test starts compiles Holdfast anew, and every worker all tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-kubernetes test test-driver test-kubernetes slowest control-plane stores check lint types layers format crd examples client pins clean

help: ## Say what each target does
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with everything that is needed (about a minute the first time)
	@echo "Holdfast is in $(VENV). Type: . $(BIN)/activate, then: holdfast run -n 2 train.py, or: make demo"

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Holdfast needs Python 3.11 or newer: make setup PYTHON=python3.11"; exit 1; }
	@echo "making $(VENV) (first time only)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

$(STAMP): pyproject.toml requirements/pins.txt | $(UV)
	@echo "installing Holdfast and its libraries, torch among them: about a minute cold"
	@$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python -c requirements/pins.txt -e '.[train,kubernetes,otel,png,postgres,redis,s3,tls,trace,trackers,dev]'
	@touch $@

demo: $(STAMP) ## A real training job on an emulated cluster loses a node and gets it back
	@$(BIN)/holdfast demo

demo-kubernetes: $(STAMP) ## The same on a real Kubernetes, through kubectl (built with Go the first time, 4 to 10 minutes)
	@$(BIN)/holdfast demo --cluster kubernetes $(if $(HOLDFAST_TEST_KUBECONFIG),--kubeconfig "$(HOLDFAST_TEST_KUBECONFIG)")

test: $(STAMP) test-driver ## Run all tests but those on a real Kubernetes (some need `make stores` once)
	@$(BIN)/python $(PYTEST) -m "(torch or not alone) and not kubernetes"

test-driver: $(DRIVER_STAMP) ## Run the tests of driver and protocol in an environment that has no torch
	@$(DRIVER_VENV)/bin/python $(PYTEST_DRIVER) -m alone tests/driver tests/protocol

test-kubernetes: $(STAMP) ## Run the tests on a real Kubernetes (`make control-plane` once)
	@$(BIN)/python $(PYTEST) -m kubernetes $(ON_KUBERNETES)

$(DRIVER_STAMP): $(STAMP)
	@test -x $(DRIVER_VENV)/bin/python || $(UV) venv --quiet --python $(BIN)/python $(DRIVER_VENV)
	@$(UV) pip install --quiet --compile-bytecode --python $(DRIVER_VENV)/bin/python -c requirements/pins.txt -e '.[otel,postgres,tls,dev]'
	@touch $@

slowest: $(STAMP) ## Run tests (TESTS=tests/cli; else all) and list the thirty dearest
	@$(BIN)/python $(PYTEST) -m "torch or not alone" --slowest 30 $(TESTS)

control-plane: $(STAMP) ## Build Kubernetes from source, once: 4 to 10 minutes where there is Go
	@$(BIN)/python -m holdfast.lab.kubernetes.build

stores: $(STAMP) ## Fetch HDFS and build an S3 server, once: 1 to 2 minutes where there are Java, Maven and Go
	@$(BIN)/python -m holdfast.lab.stores.build

check: lint types layers ## Lint, formatting, types and layers

lint: $(STAMP)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(STAMP)
	@$(BIN)/mypy

layers: $(STAMP)
	@$(BIN)/lint-imports

format: $(STAMP) ## Format the code and mend what the linter can
	@$(BIN)/ruff check --fix-only --quiet . ; $(BIN)/ruff format .

crd: $(STAMP) ## Write the custom resource definition anew from the job spec
	@$(BIN)/python -m holdfast.driver.adapters.kubernetes.crd > deploy/kubernetes/base/crd.yaml

examples: $(STAMP) ## Record the examples of the REST interface anew
	@$(BIN)/python -m holdfast.lab.recorded

client: $(STAMP) ## Write what the client for Python knows of the REST interface anew
	@$(BIN)/python -m holdfast.lab.client

pins: $(STAMP) ## Choose library versions anew and write requirements/pins.txt
	@$(UV) pip compile --quiet --all-extras --no-annotate --no-header --no-emit-index-url --no-emit-find-links --output-file requirements/pins.txt pyproject.toml

clean: ## Remove environments and caches
	@rm -rf $(VENV) $(DRIVER_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
