# Each target sets up what it needs on a Debian or Ubuntu machine with python3 and make: it creates
# .venv, installs the pinned packages, and fetches Kafka's jars with Maven for the tests. Set-up is
# repeated only if pyproject.toml, constraints.txt or the sources in C change. Other systems need
# python3 with venv, and for the tests a C compiler, a JDK (17 or newer) and Maven.
#
# pip, apt and Maven are used as configured on the machine.

PYTHON ?= python3
PYTEST_ARGS ?=
WORKERS ?= 6
MUTANTS ?=
RELEASES ?=
PYTHONS ?=
BENCH_ARGS ?=

# tests/sharing_out.py distributes tests over workers.
PYTEST := .venv/bin/pytest --numprocesses $(WORKERS) --no-loadscope-reorder
PIP := .venv/bin/python -P -m pip --disable-pip-version-check
SWEEPS := bench/assignor_differential.py bench/coordinator_differential.py bench/share_partition_differential.py bench/consumer_differential.py bench/cluster_differential.py bench/storage_damage.py bench/simulation_sweep.py bench/watch_differential.py
FUZZERS := bench/socket_fuzz.py
SPARK_CLASSES := tests/pipeline/target/spark.jsa
BYTECODE := build/.bytecode
NATIVE := setup.py $(wildcard codecs/native/*) $(wildcard assignors/native/*)
DEV_EXTRAS := arrow,aiokafka,metrics,secure,spark,testcontainers,uvloop,watch,dev

# Without bytecode files, as in many containers, each of the hundreds of processes that tests start
# would compile all modules again.
test test-full test-quick: export PYTHONDONTWRITEBYTECODE =

# First, because scripts/setup-go installs it if the machine's is missing or older.
test test-full test-quick bench: export PATH := $(CURDIR)/build/go/go/bin:$(PATH)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-full test-quick test-spark-matrix fuzz coverage mutate lint format bench bench-diff docs dist dist-check picture constraints setup java containers browser go clean

help: ## Show this list
	@echo "make targets:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
	@echo "Variables: PYTHON=python3.13 (Python for .venv), PYTEST_ARGS='-k batches -x' (passed to pytest), WORKERS=2 (parallel test processes, by default 6; each may start a cluster of three brokers)"

demo: .venv/.core ## Run the demo: a cluster with three racks and consumers in one process (some seconds, without Java)
	@mkdir -p build
	@.venv/bin/quorate demo --html build/quorate-demo.html

test: .venv/.dev $(BYTECODE) java $(SPARK_CLASSES) containers browser go ## Run all tests, with Kafka's classes, and the integration tests both on embedded brokers and on brokers in containers
	scripts/in-memory $(PYTEST) --kafka-runtime docker,embedded $(PYTEST_ARGS)

test-full: .venv/.dev $(BYTECODE) java $(SPARK_CLASSES) containers browser go ## Run all tests without samples: three times the examples, all clients on real brokers, and tests marked long (some hours)
	$(PYTEST) --hypothesis-profile full --kafka-runtime docker,embedded $(PYTEST_ARGS)

test-quick: .venv/.dev $(BYTECODE) java $(SPARK_CLASSES) browser go ## Run all tests except those with brokers in containers
	scripts/in-memory $(PYTEST) -m "not fuzz and not containers" $(PYTEST_ARGS)

test-spark-matrix: .venv/bin/python java ## Run the pipeline's tests on Spark 4.0, 4.1, the pinned and the newest release (RELEASES='4.0 newest'); results in docs/how-to/spark.md
	.venv/bin/python -P scripts/spark_matrix.py $(RELEASES)

fuzz: .venv/.dev java ## Run the fuzzers (the socket fuzzer takes an hour; FUZZ_ARGS="--minutes 5")
	.venv/bin/pytest -m fuzz $(PYTEST_ARGS)
	@set -e; for fuzzer in $(FUZZERS); do echo "== $$fuzzer"; .venv/bin/python "$$fuzzer" $(FUZZ_ARGS); done

coverage: .venv/.dev java ## Measure line and branch coverage of coordinator/ by its tests; fails below 95 %
	.venv/bin/pytest tests/coordinator tests/differential tests/cli/groups/test_groups.py tests/cli/assign tests/cli/hash tests/cluster/apis --cov $(PYTEST_ARGS)

mutate: .venv/.dev ## Run mutation tests of the coordinator's core (about half an hour; MUTANTS='quorate.coordinator.metadata_hash.*')
	.venv/bin/python -P scripts/mutate.py $(MUTANTS)

lint: .venv/.dev ## Run ruff, mypy --strict on the installed package, and checks of imports and wording
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	scripts/lint-types
	.venv/bin/python -P scripts/plain_english.py

format: .venv/.dev ## Format the sources as make lint requires
	.venv/bin/ruff check --fix-only .
	.venv/bin/ruff format .

bench: .venv/.dev java containers browser go ## Run the benchmarks of what users feel, print one table with the goals, and write it to docs/explanation/speed.md (BENCH_ARGS="--quick --only codecs")
	.venv/bin/python bench/speed.py $(BENCH_ARGS)

bench-diff: test-full ## Run all tests without samples, then long differential sweeps against Kafka's classes and damaged data directories (a day)
	@set -e; for sweep in $(SWEEPS); do echo "== $$sweep"; .venv/bin/python "$$sweep" $(BENCH_ARGS); done

docs: .venv/.docs ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 .venv/bin/python -P -m mkdocs build --strict
	@echo "open site/index.html"

dist: .venv/.release ## Build sdist and wheels (with the accelerator, and without) of the last commit into dist/, twice with the same bytes, and check them with twine
	.venv/bin/python -P scripts/make_dist.py

dist-check: dist ## Also test the wheels in empty environments for each available Python and each extra (PYTHONS='python3.12'; some minutes)
	.venv/bin/python -P scripts/check_dist.py $(PYTHONS)

picture: .venv/.dev browser ## Draw docs/images/demo.svg, the picture in README.md, and the pictures of quorate watch
	.venv/bin/python -P scripts/make_picture.py
	.venv/bin/python -P scripts/make_watch_pictures.py

constraints: .venv/bin/python ## Write constraints.txt (UPGRADE=1: with the newest versions)
	.venv/bin/python -P scripts/make_constraints.py $(if $(UPGRADE),--upgrade)

setup: .venv/.dev .venv/.docs java browser go ## Do all set-up of the targets above

# Containers: a running engine, and Kafka's images.

containers:
	@docker/setup

# Chromium, for tests of the page of quorate watch.

browser:
	@scripts/setup-browser

# Modules of franz-go's clients and of kfake, and Go itself if it is missing.

go: .venv/bin/python
	@scripts/setup-go .venv/bin/python

clean: ## Remove built files, but not .venv
	rm -rf build dist site tests/*/target codecs/_native*.so

# Python: core dependencies for the demo, others for development. setuptools is pinned, too, hence
# no build isolation.

.venv/bin/python:
	@scripts/setup-python $(PYTHON)

.venv/.core: pyproject.toml constraints.txt $(NATIVE) | .venv/bin/python
	@echo "installing quorate into .venv"
	@$(PIP) install --quiet --constraint constraints.txt setuptools
	@$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable .
	@touch $@

.venv/.dev: pyproject.toml constraints.txt $(NATIVE) | .venv/bin/python
	@scripts/setup-compiler .venv/bin/python
	@echo "installing quorate and its development dependencies into .venv"
	@$(PIP) install --quiet --constraint constraints.txt setuptools
	@$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable ".[$(DEV_EXTRAS)]"
	@touch .venv/.core $@

.venv/.release: pyproject.toml constraints.txt | .venv/.dev
	@echo "installing what a release needs into .venv"
	@$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable ".[$(DEV_EXTRAS),release]"
	@touch .venv/.core .venv/.dev $@

.venv/.docs: pyproject.toml constraints.txt | .venv/bin/python
	@echo "installing dependencies of the documentation into .venv"
	@$(PIP) install --quiet --constraint constraints.txt setuptools
	@$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable ".[docs]"
	@touch .venv/.core $@

# Java: each folder of tests/ with a `build` script is a Maven project on Kafka's jars. Jars of an
# earlier release are removed, because all in lib are on the class path.

JAVA_PROJECTS := $(patsubst %/build,%/target/.built,$(wildcard tests/*/build))
JAVA_SOURCES := $(shell find tests -name target -prune -o -name '*.java' -print)

java: $(JAVA_PROJECTS)

tests/%/target/.built: tests/%/pom.xml tests/%/build $(JAVA_SOURCES)
	@scripts/setup-java
	@echo "fetching Kafka's jars and building $(@:/target/.built=)"
	@rm -rf $(@D)/classes $(@D)/lib
	@PYTHON=$(PYTHON) $(@:/target/.built=)/build
	@touch $@

# Python's bytecode of tests and packages, once: otherwise each worker of a first run compiles all.

$(BYTECODE): | .venv/.dev
	@echo "compiling the tests"
	@.venv/bin/pytest --collect-only -qq > /dev/null || true
	@mkdir -p $(@D) && touch $@

# JVMs of Spark in tests map their classes from an archive for the installed pyspark and Java.

$(SPARK_CLASSES): tests/pipeline/helpers/archive.py .venv/.dev
	@scripts/setup-java
	@echo "archiving the classes of Spark"
	@mkdir -p $(@D)
	@.venv/bin/python -m tests.pipeline.helpers.archive $@ > $(@D)/archive.log 2>&1 || { cat $(@D)/archive.log; exit 1; }
