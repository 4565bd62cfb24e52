# Every target does its own set-up on a Debian or Ubuntu machine that has python3 and make: it creates .venv, installs the pinned packages,
# and for the tests fetches Kafka's jars by Maven. Nothing is repeated while pyproject.toml and constraints.txt stay the same.
# Other systems work too, but have to bring python3 with venv, and for the tests a JDK (17 or newer) and Maven.
#
# Where packages come from is up to the machine: pip, apt and Maven are used as they are configured.

PYTHON ?= python3
PYTEST_ARGS ?=
WORKERS ?= 4
MUTANTS ?=
RELEASES ?=
PYTHONS ?=
BENCH_ARGS ?=

# tests/sharing_out.py says who does what.
PYTEST := .venv/bin/pytest --numprocesses $(WORKERS) --no-loadscope-reorder
PIP := .venv/bin/python -P -m pip --disable-pip-version-check
SWEEPS := bench/assignor_differential.py bench/coordinator_differential.py bench/cluster_differential.py bench/storage_damage.py
FUZZERS := bench/socket_fuzz.py
SPARK_CLASSES := tests/pipeline/target/spark.jsa
BENCHES := $(filter-out $(SWEEPS) $(FUZZERS),$(wildcard bench/[!_]*.py))
DEV_EXTRAS := arrow,aiokafka,metrics,secure,spark,testcontainers,dev

# Where Python is told to write no bytecode, as in many containers, each of the hundreds of processes that tests start would compile everything again.
test test-quick: export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-quick test-spark-matrix fuzz coverage mutate lint format bench bench-diff docs dist dist-check picture constraints setup java containers clean

help: ## This list
	@echo "make targets:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
	@echo "Variables: PYTHON=python3.13 (which Python .venv is made with), PYTEST_ARGS='-k batches -x' (handed to pytest), WORKERS=2 (tests at a time, by default 4; each may start a cluster of three brokers)"

demo: .venv/.core ## A cluster with three racks in one process, consumers in it, and what happens to them (needs no Java; some seconds)
	@mkdir -p build
	@.venv/bin/quorate demo --html build/quorate-demo.html

test: .venv/.dev java $(SPARK_CLASSES) containers ## Everything, compared with Kafka's own classes and on real brokers in containers; then what runs on these on embedded ones
	$(PYTEST) --kafka-runtime docker $(PYTEST_ARGS)
ifeq ($(PYTEST_ARGS),)
	$(PYTEST) tests/integration --kafka-runtime embedded -m "not fuzz and not containers and not without_containers"
endif

test-quick: .venv/.dev java $(SPARK_CLASSES) ## Everything but the tests on brokers in containers
	$(PYTEST) -m "not fuzz and not containers" $(PYTEST_ARGS)

test-spark-matrix: .venv/bin/python java ## The pipeline's tests on Spark 4.0, 4.1, the pinned and the newest release (RELEASES='4.0 newest'), outcome in docs/how-to/spark.md
	.venv/bin/python -P scripts/spark_matrix.py $(RELEASES)

fuzz: .venv/.dev java ## Long random runs (FUZZ_ARGS="--minutes 5" for those of sockets, which take an hour)
	.venv/bin/pytest -m fuzz $(PYTEST_ARGS)
	@set -e; for fuzzer in $(FUZZERS); do echo "== $$fuzzer"; .venv/bin/python "$$fuzzer" $(FUZZ_ARGS); done

coverage: .venv/.dev java ## Which lines and branches of coordinator/ the tests of coordinator/ run; fails below 95 %
	.venv/bin/pytest tests/coordinator tests/differential tests/cli/groups/test_groups.py --cov $(PYTEST_ARGS)

mutate: .venv/.dev ## Which changes of the coordinator's core the tests do not notice (about half an hour; MUTANTS='quorate.coordinator.metadata_hash.*')
	.venv/bin/python -P scripts/mutate.py $(MUTANTS)

lint: .venv/.dev ## ruff, mypy --strict on the installed package, and which room may import which
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	scripts/lint-types
	.venv/bin/python -P scripts/plain_english.py

format: .venv/.dev ## Put the sources into the shape that make lint asks for
	.venv/bin/ruff check --fix-only .
	.venv/bin/ruff format .

bench: .venv/.dev java containers ## Every benchmark, ours beside a peer's
	@set -e; for bench in $(BENCHES); do echo "== $$bench"; .venv/bin/python "$$bench"; done

bench-diff: .venv/.dev java ## Three times the examples and seeds of make test, then the long differential sweeps against Kafka's own classes, and damaged data directories, seeds printed (about an hour)
	$(PYTEST) --hypothesis-profile full -m "not fuzz and not containers" tests/codecs tests/assignors tests/coordinator tests/differential tests/cluster
	@set -e; for sweep in $(SWEEPS); do echo "== $$sweep"; .venv/bin/python "$$sweep" $(BENCH_ARGS); done

docs: .venv/.docs ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 .venv/bin/python -P -m mkdocs build --strict
	@echo "open site/index.html"

dist: .venv/.release ## The source distribution and the wheel of the last commit in dist/: built twice to the same bytes, and checked by twine
	.venv/bin/python -P scripts/make_dist.py

dist-check: dist ## Then the wheel in an empty environment for each Python that is found and each extra (PYTHONS='python3.12'; some minutes)
	.venv/bin/python -P scripts/check_dist.py $(PYTHONS)

picture: .venv/.core ## Make docs/images/demo.svg, the picture in README.md, anew
	.venv/bin/python -P scripts/make_picture.py

constraints: .venv/bin/python ## Write constraints.txt anew (UPGRADE=1: with the newest versions)
	.venv/bin/python -P scripts/make_constraints.py $(if $(UPGRADE),--upgrade)

setup: .venv/.dev .venv/.docs java ## All the set-up that the targets above share

# Containers: an engine that answers, and Kafka's images.

containers:
	@docker/setup

clean: ## Remove what was built, but not .venv
	rm -rf build dist site tests/*/target

# Python: the core for the demo, the rest for development. setuptools comes pinned like everything else, hence no build isolation.

.venv/bin/python:
	@scripts/setup-python $(PYTHON)

.venv/.core: pyproject.toml constraints.txt | .venv/bin/python
	@echo "installing quorate into .venv"
	@$(PIP) install --quiet --constraint constraints.txt setuptools
	@$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable .
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	@echo "installing quorate and what its development needs into .venv"
	@$(PIP) install --quiet --constraint constraints.txt setuptools
	@$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable ".[$(DEV_EXTRAS)]"
	@touch .venv/.core $@

.venv/.release: pyproject.toml constraints.txt | .venv/.dev
	@echo "installing what a release needs into .venv"
	@$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable ".[$(DEV_EXTRAS),release]"
	@touch .venv/.core .venv/.dev $@

.venv/.docs: pyproject.toml constraints.txt | .venv/bin/python
	@echo "installing what the documentation needs into .venv"
	@$(PIP) install --quiet --constraint constraints.txt setuptools
	@$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable ".[docs]"
	@touch .venv/.core $@

# Java: each folder of tests/ with a `build` script is a Maven project on Kafka's jars.

JAVA_PROJECTS := $(patsubst %/build,%/target/.built,$(wildcard tests/*/build))
JAVA_SOURCES := $(shell find tests -name target -prune -o -name '*.java' -print)

java: $(JAVA_PROJECTS)

tests/%/target/.built: tests/%/pom.xml tests/%/build $(JAVA_SOURCES)
	@scripts/setup-java
	@echo "fetching Kafka's jars and building $(@:/target/.built=)"
	@PYTHON=$(PYTHON) $(@:/target/.built=)/build
	@touch $@

# Each JVM of Spark in tests maps its classes from a file, which fits the installed pyspark and Java.

$(SPARK_CLASSES): tests/pipeline/archive.py .venv/.dev
	@scripts/setup-java
	@echo "archiving the classes of Spark"
	@mkdir -p $(@D)
	@.venv/bin/python -m tests.pipeline.archive $@ > $(@D)/archive.log 2>&1 || { cat $(@D)/archive.log; exit 1; }
