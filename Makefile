# Every target sets up what it needs; see tools/setup.sh.

.DEFAULT_GOAL := help
.NOTPARALLEL:
# Tests, demo and benchmark are about the installed wheel, and nothing else.
unexport PYTHONPATH

bin := .venv/bin
bazel := TF_OPT_PYTHON=$(CURDIR)/$(bin)/python bazel
cc_files = $(shell find build_deps tf_opt tests benchmarks -name '*.h' -o -name '*.cc' \
  -o -name '*.cu' -o -name '*.cuh')
# The wheel to develop with, for the newest TensorFlow alone.
development_wheel := build/wheel
# Packages with models to train, beside .venv.
clients := build/clients
uv_lock = $(bin)/uv pip compile --universal --python-version 3.10 \
  --generate-hashes --custom-compile-command 'make lock' \
  --annotation-style line $(LOCK_ARGS)
oldest_keras = build/$(shell grep -m 1 -o '^keras[^ ]*' requirements/older-keras.txt)

# For example `make bench BENCH_ARGS=--help` or `make test PYTEST_ARGS=-x`.
BENCH_ARGS ?=
# `make lock LOCK_ARGS=` keeps the versions that still fit.
LOCK_ARGS ?= --upgrade
PYTEST_ARGS ?= -n auto --maxprocesses 4 --dist worksteal

.PHONY: help
help: ## Lists these targets
	@echo 'Targets (another Python for .venv: PYTHON=/path/to/python3 make ...):'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' \
	  $(MAKEFILE_LIST)

.PHONY: demo
demo: install ## Trains a small network with Keras' AdamW and with tf_opt's
	@tools/setup.sh demo
	$(bin)/python examples/digits.py

.PHONY: test
test: cc-test install ## Tests the C++ code, and the installed wheel
	@echo '==> Testing the installed wheel'
	$(bin)/pytest -m 'not slow' $(PYTEST_ARGS)
	@echo '==> Passed. `make test-ci` adds style, types and the pure wheel, `make test-all`'
	@echo '    slow tests, the oldest Keras, and the kernels for GPUs, emulated.'

.PHONY: test-ci
test-ci: test lint ## What CI runs, in 14 minutes on 2 quiet cores
	@tests/pure_wheel.sh $(PYTEST_ARGS) \
	  $(addprefix tests/test_,build.py keras.py features.py)

.PHONY: test-all
test-all: test-ci test-rest ## Runs every check, with the newest TensorFlow

.PHONY: test-rest
test-rest: install
	@echo '==> Running the slow tests'
	$(bin)/pytest -m slow $(PYTEST_ARGS)
	@echo '==> Testing the core with the oldest Keras'
	@tools/setup_beside.sh $(oldest_keras) \
	  "$$(grep -m 1 '^keras' requirements/older-keras.txt)"
	PYTHONPATH=$(oldest_keras) $(bin)/pytest -m 'core and not slow' \
	  $(PYTEST_ARGS)
	@tests/pure_wheel.sh $(PYTEST_ARGS)
	@echo '==> Testing the kernels for GPUs'
	$(bazel) test --nobuild_tests_only //tests/...
	@tests/library_variants.sh $(PYTEST_ARGS)
	@tests/gpu/run.sh --compile-only
	@tests/reproducible.sh

.PHONY: test-tensorflows
test-tensorflows: wheel ## Tests every TensorFlow and Keras minor
	@tools/setup.sh test
	@tests/tensorflows.sh $(PYTEST_ARGS)

.PHONY: test-newest
test-newest: ## Tests what is newest of TensorFlow and Keras, pre-releases included
	@tools/setup.sh build test
	@tests/tensorflows.sh --newest $(PYTEST_ARGS)

.PHONY: test-aarch64
test-aarch64: ## Tests the wheel for Linux on ARM, with QEMU
	@tests/aarch64.sh $(PYTEST_ARGS)

.PHONY: test-systems
test-systems: ## Resolves what the pure wheel requires on each system, with uv
	@tools/setup.sh lock
	@tests/pure_wheel.sh --resolve

.PHONY: test-reproducible
test-reproducible: ## Builds two clones of the commit, which must give one wheel
	@tools/setup.sh build
	@tests/reproducible.sh --clones

.PHONY: test-clients
test-clients: install torch-once clients ## Trains models of other packages with Keras' optimizer and ours
	PYTHONPATH=$(clients) $(bin)/pytest tests/check_clients.py

.PHONY: bench
bench: install torch-once ## Measures tf_opt beside Keras, TensorFlow and PyTorch
bench: $(if $(filter --clients --sparse,$(BENCH_ARGS)),clients)
	@tools/setup.sh demo
	$(bazel) build //benchmarks:_memory_floor.so
	PYTHONPATH=$(clients) $(bin)/python benchmarks/run.py $(BENCH_ARGS)

.PHONY: docs
docs: install ## Builds the documentation's site in build/site, and tests it
	@tools/setup.sh docs test
	@tools/system_packages.sh $(bin)/python chromium
	NO_MKDOCS_2_WARNING=1 TF_CPP_MIN_LOG_LEVEL=3 $(bin)/mkdocs build
	TF_OPT_SITE=build/site $(bin)/pytest $(PYTEST_ARGS) tests/test_documents.py

.PHONY: gpu-test
gpu-test: ## Checks and measures the engine on a GPU, with nvcc alone
	@tests/gpu/run.sh

.PHONY: lint
lint: ## Checks style, formatting, and the types of the public API
	@tools/setup.sh lint build
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/pyright
	$(bin)/clang-format --dry-run -Werror $(cc_files)

.PHONY: format
format: ## Formats all Python and C++
	@tools/setup.sh lint
	$(bin)/ruff check --fix-only
	$(bin)/ruff format
	$(bin)/clang-format -i $(cc_files)

.PHONY: build
build: ## Compiles the library of custom ops
	@tools/setup.sh build
	$(bazel) build //tf_opt:binaries

.PHONY: wheel
wheel: ## Builds and checks the wheel in dist/, for every TensorFlow minor
	@./pip_pkg.sh --all

.PHONY: install
install: ## Installs into .venv a wheel for the newest TensorFlow alone
	@./pip_pkg.sh --newest-only $(development_wheel)
	@tools/install_wheel.sh $(development_wheel) .venv

.PHONY: torch
torch: ## Tries again to install PyTorch, which is optional
	@rm -f .venv/.tried-torch
	@$(MAKE) torch-once

.PHONY: lock
lock: ## Pins the newest versions of all requirements, with their hashes
	@tools/setup.sh lock
	$(uv_lock) --output-file requirements/constraints.txt \
	  requirements/build.txt requirements/demo.txt requirements/docs.txt \
	  requirements/lint.txt requirements/lock.txt requirements/test.txt
	for lock in requirements/tensorflow-*.txt; do \
	  minor=$${lock#requirements/tensorflow-}; \
	  sed "s/==.*\.\*/==$${minor%.txt}.*/;/^tensorflow/!d" \
	    requirements/build.txt | $(uv_lock) --output-file "$$lock" \
	    requirements/test.txt - || exit; \
	done

.PHONY: clean
clean: ## Removes everything that the other targets made
	-command -v bazel >/dev/null && bazel clean --expunge
	rm -rf .venv build dist .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -r {} +

.PHONY: cc-test
cc-test:
	@tools/setup.sh build test demo
	@echo "==> Running Bazel's tests, and installing PyTorch meanwhile"
	@tools/setup_torch.sh & $(bazel) test //tf_opt/...; status=$$?; \
	  wait; exit $$status
	@echo "==> Checking the library's instructions"
	$(bazel) build //tf_opt:binaries
	$(bin)/python tests/check_instructions.py \
	  bazel-bin/tf_opt/python/ops/_tf_opt_ops.so

.PHONY: clients
clients:
	@tools/setup.sh test demo
	@tools/setup_beside.sh $(clients) "$$(grep -v '^#' requirements/clients.txt)"

.PHONY: torch-once
torch-once:
	@tools/setup.sh test demo
	@tools/setup_torch.sh
