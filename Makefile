# Everything a person or a machine does with this checkout. `make help` lists it.

SHELL := /bin/bash
PYTHON ?= python3
export PYTHON
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Modules are compiled once, not in each of the programs that tests start.
unexport PYTHONDONTWRITEBYTECODE

SAMPLE := sample-traces/oltp
DEMO := out/demo
FUZZ_S ?= 60
C_FILES = $(shell find replayer tests -name '*.[ch]')
PYTHON_FILES := tracekit tests .ci/uv.py docs replayer/declarations.py
CHECKS := check-ruff check-types check-layers check-c check-sql check-gcc check-clang check-house
LONGEST_FIRST := tests/lab/test_guest.py tests/lab/test_blktrace.py tests/lab/test_polling.py
LOCK := build/uv/bin/python .ci/uv.py pip compile --quiet --universal --python-version 3.11 \
        --fork-strategy fewest --generate-hashes --no-header --no-annotate \
        --no-emit-index-url --no-emit-find-links

.DEFAULT_GOAL := help
.PHONY: help demo test spark-demo lab-test bare-test check setup setup-dev format docs site bench fuzz crash sanitize wheel lock clean $(CHECKS)

help: ## List what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## Run the whole pipeline on the sample trace and print the answer
	@tracekit run $(SAMPLE) -o $(DEMO) --force

test: setup-dev ## Run all tests; ARGS="tests/decode -k flush" chooses
	pytest -n auto --dist loadgroup --no-loadscope-reorder $(ARGS) || .ci/again $$?

spark-demo: setup ## Start a Spark cluster of two workers here, and answer for a generated set on it
	@.ci/setup spark
	@python -m tests.spark.demo $(ARGS)

lab-test: setup-dev ## Prove the VM lab: boot guests, DAX, a capture of three roles (needs QEMU)
	TRACEKIT_LAB=1 pytest -n auto --dist loadgroup --no-loadscope-reorder $(LONGEST_FIRST) tests/lab $(ARGS)

bare-test: ## The demo and all tests on a bare Debian system that is made for it (needs root, debootstrap)
	.ci/bare

check: setup-dev ## Run linters, types, warnings as errors on two compilers, and the house rules
	@$(MAKE) --no-print-directory --jobs=4 --output-sync=target --keep-going $(CHECKS)

setup: ## Install what is missing to use tracekit: packages, environment, native parts
	@.ci/setup runtime

setup-dev: ## The same, with what tests and linters need
	@.ci/setup dev

format: setup-dev ## Lay out Python, C and SQL as `make check` wants them
	ruff format $(PYTHON_FILES)
	ruff check --fix $(PYTHON_FILES)
	clang-format -i $(C_FILES)
	sqlfluff fix --quiet analyzers

docs: setup-dev ## Write docs/commands/, docs/python.md, docs/tables.md and analyzers/README.md anew
	python -m tests.docs.pages
	python -m tests.docs.guide
	python -m tests.docs.tables
	python -m tests.analyzers.index

site: ## Build the documentation into out/site, to be read without a network
	@.ci/setup site
	@NO_MKDOCS_2_WARNING=1 build/site/bin/mkdocs build --strict --config-file docs/site/mkdocs.yml \
	  >build/site/log 2>&1 || { cat build/site/log; exit 1; }
	@echo out/site/index.html

bench: setup-dev ## Measure decoding, replay and every stage beside the peers; ARGS="fast --rounds 9" chooses
	python -m tests.bench $(ARGS)

fuzz: setup-dev ## Fuzz decoder, readers of texts and trace folders, a minute each; FUZZ_S=600 for longer (needs clang)
	tests/fuzz/run decode $(FUZZ_S)
	tests/fuzz/run texts $(FUZZ_S)
	tests/fuzz/run columns $(FUZZ_S)
	tests/fuzz/run octf $(FUZZ_S)
	tests/fuzz/run calls $(FUZZ_S)
	python -m tests.fuzz.folders --seconds $(FUZZ_S)

crash: setup-dev ## Kill commands and cut the power at every call that changes files; ARGS="parse --stride 9" chooses
	python -m tests.crash $(ARGS)

sanitize: setup-dev ## Run the replayer's tests under TSan, ASan with UBSan, and valgrind
	tests/sanitize/run thread
	tests/sanitize/run address
	tests/sanitize/run valgrind

wheel: setup-dev ## Build the wheel into out/wheel
	build/uv/bin/python .ci/uv.py build --quiet --wheel --build-constraints .ci/requirements.lock --out-dir out/wheel

lock: setup-dev ## Write the lock files anew; ARGS=--upgrade takes the newest releases
	$(LOCK) $(ARGS) .ci/requirements.in -o .ci/requirements.lock
	$(LOCK) $(ARGS) docs/site/requirements.in -o docs/site/requirements.lock
	$(LOCK) $(ARGS) tests/objects/requirements.in -o tests/objects/requirements.lock
	$(LOCK) $(ARGS) tests/spark/requirements.in -o tests/spark/requirements.lock
	$(LOCK) $(ARGS) pyproject.toml -o requirements.lock
	$(LOCK) $(ARGS) pyproject.toml --extra dev -c requirements.lock -o tests/requirements.lock

clean: ## Remove everything that was made, the environment included
	rm -rf .venv build out .pytest_cache .mypy_cache .ruff_cache .hypothesis

check-ruff:
	@ruff check --quiet $(PYTHON_FILES)
	@ruff format --quiet --check $(PYTHON_FILES)

check-types:
	@mypy --no-error-summary

check-layers:
	@lint-imports --no-logo --cache-dir build/import-linter >build/layers.log || { cat build/layers.log; exit 1; }

check-c:
	@clang-format --dry-run -Werror $(C_FILES)

check-sql:
	@sqlfluff lint --disable-progress-bar --processes 0 analyzers

check-gcc check-clang: check-%:
	@if command -v $* >/dev/null; then \
	  CC=$* cmake -S . -B build/check-$* -G Ninja -DTRACEKIT_WERROR=ON >/dev/null && \
	  MAKEFLAGS= ninja -C build/check-$* --quiet; \
	else echo "$* is not installed: not compiled with it"; fi

check-house:
	@pytest -q --tb=short -p no:xdist -m "not slow" tests/house tests/docs
