# Every target first installs what it needs into .venv (scripts/setup.sh). Only Python 3.11+ and, where Spark runs,
# Java 17+ must be installed by hand. Paths are relative, so that the path of the checkout may contain blanks.

PY := .venv/bin/python
ARGS ?=

# Spark listens only on this machine, and its workers use this Python. It is given by name, not by path, because
# Spark looks it up with an unquoted `command -v`, which a blank in the path breaks.
export SPARK_LOCAL_IP := 127.0.0.1
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYSPARK_PYTHON := python
export PYSPARK_DRIVER_PYTHON := python

# Spark starts dozens of short processes that import the package; with compiled modules they start faster.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup classes overlays demo test test-all test-slow test-long test-fast compat lint format types docs notebooks model simulate soak cluster fuzz growth bench bench-quick wheel-test release-check clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: ## Install everything that the other targets need (each installs its own part by itself)
	@bash scripts/setup.sh

setup-%:
	@bash scripts/setup.sh $*

demo: setup-demo ## Stream files through two crashes and count the rows: under a minute
	@$(PY) -m flip27_source.cli.main demo $(ARGS)

# Tests spend as much time on the disk as on the CPU, so they write to memory if it has room (a container's
# /dev/shm often has none).
IN_MEMORY := $(shell df -k --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 6000000 { print "TMPDIR=/dev/shm" }')

# Three processes for two cores, because tests also wait for servers; each process has its own Spark session.
# tests/conftest.py sorts the tests, so that long ones run first.
PYTEST := $(IN_MEMORY) $(PY) -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# Tests start dozens of JVMs, which map an archive of Spark's classes instead of loading them from jars.
classes: setup-test
	@$(PY) -m scripts.class_archive

test: classes ## Run the tests that protect users; make test ARGS="-k name -x" runs some of them
	@FLIP27_EXAMPLES=$${FLIP27_EXAMPLES:-30} $(PYTEST) -m "not (slow or long)" $(ARGS)

test-slow: classes ## Run what make test leaves out because it repeats other tests at length
	@$(PYTEST) -m "slow and not long" $(ARGS)

test-long: classes ## Run the tests of make test and make test-slow with other parameters and on PostgreSQL 16
	@$(PYTEST) -m long $(ARGS)

test-all: test test-slow test-long compat ## Run all tests, including those on older PySparks

test-fast: setup-test ## Run the quick tests, which start neither Spark nor another server: a minute
	@FLIP27_EXAMPLES=10 $(PYTEST) -m "not (slow or long or thorough or spark or server)" $(ARGS)

overlays: setup-venv
	@bash scripts/compat.sh --install-only

compat: setup-test ## Run every test that starts Spark on PySpark 4.0, 4.1 and 4.2: make compat ARGS="--spark 4.0"
	@$(IN_MEMORY) bash scripts/compat.sh $(ARGS)

compat-short: setup-test ## Run the most important of them: a minute for each version
	@$(IN_MEMORY) bash scripts/compat.sh --short $(ARGS)

lint: setup-lint ## Check style (ruff)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

format: setup-lint ## Format the code and apply ruff's automatic fixes
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

types: setup-types ## Check types (mypy, strict)
	@$(PY) -m mypy

docs: setup-docs ## Build the documentation into site/ (open site/index.html)
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@echo "Open site/index.html; to search, too: $(PY) -m http.server -d site"

notebooks: setup-test ## Run the notebooks and store their outputs; make notebooks ARGS=quickstart runs one
	@$(PY) -m scripts.notebooks $(ARGS)

model: setup-test ## Explore the protocol's interleavings further than make test does: some twenty minutes
	@FLIP27_MODEL=long $(PY) -m pytest tests/model $(ARGS)

simulate: setup-test ## Simulate queries with every fault and count the defects: make simulate ARGS="--seeds 10000"
	@$(PY) -m tests.simulator $(ARGS)

soak: setup-test ## Kill real drivers, fill disks, remove permissions, and count the rows: make soak ARGS="--disasters 300"
	@$(PY) -m tests.soak $(ARGS)

cluster: classes ## Run a query on Spark Standalone on several hosts, with faults: make cluster ARGS="--minutes 30"
	@$(IN_MEMORY) $(PY) -m tests.cluster $(ARGS)

fuzz: setup-test ## Read random files here and with Spark: make fuzz ARGS="--format csv --cases 1000 --seed 7"
	@$(PY) -m tests.fuzz $(ARGS)

growth: setup-test ## Measure whether the CPU time of every reader option grows at most linearly with the rows: forty minutes
	@$(PY) -m tests.growth $(ARGS)

bench: setup-test ## Compare with Spark's own file source: most of an hour and 4 GB of disk
	@$(PY) -m benchmarks $(ARGS)

bench-quick: setup-test ## Run make bench with small sizes: shows that it works, says little about speed
	@$(PY) -m benchmarks --quick $(ARGS)

wheel-test: setup-wheel ## Build wheel and sdist, install the wheel alone, and try it from elsewhere
	@$(PY) -m scripts.wheel_test

release-check: setup-release ## Build a release into dist/, and follow the quickstart with it on Spark 4.0 and 4.3
	@bash scripts/compat.sh --install-only --spark 4.0
	@$(PY) -m scripts.release_check $(ARGS)

clean: ## Remove .venv and everything that was built or cached
	rm -rf .venv build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage* htmlcov
