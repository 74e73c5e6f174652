# Needs make and Python 3.11 or newer; everything else is installed into .venv by the first target that needs it.
# A second run installs nothing and needs no network.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { command -v $$p; break; }; done)
BIN := .venv/bin
PACKAGES := loopengine api workers engine protocol tests
PYTEST_ARGS ?=
BENCH_ARGS ?=

.PHONY: help venv demo test check bench serve clean

help:
	@echo "make demo    an agent looks up an order, asks for permission to refund, is approved, finishes"
	@echo "make serve   the HTTP API with a store and a worker of its own"
	@echo "make test    all tests (PYTEST_ARGS=... is handed on)"
	@echo "make check   format, lint, types, layers"
	@echo "make bench   speed and cost, as ratios to the raw store (BENCH_ARGS=... is handed on)"
	@echo "make clean   remove .venv and caches; .loopengine, where turns live, stays"

# The stamp holds what was installed, not when: a checkout that only touches pyproject.toml must work offline.
# Without Debian's python3-venv there is no pip inside a new environment; the pip outside can fill it as well.
venv:
	@sum="$$(cksum < pyproject.toml)"; \
	if [ "$$(cat .venv/.installed 2>/dev/null)" != "$$sum" ] || [ ! -x $(BIN)/loopengine ]; then \
		if [ -z "$(PYTHON)" ]; then echo "Python 3.11 or newer is needed: install it, or make PYTHON=/path/to/python" >&2; exit 1; fi; \
		echo "installing into .venv (once) ..." >&2; \
		rm -f .venv/.installed; \
		if [ ! -x $(BIN)/python ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
			"$(PYTHON)" -m venv --clear .venv >/dev/null 2>&1 \
			|| { "$(PYTHON)" -m venv --clear --without-pip .venv \
				&& "$(PYTHON)" -m pip --python .venv install -q --disable-pip-version-check pip; } \
			|| { echo "$(PYTHON) can make no environment: install its venv and pip (Debian: python3-venv)" >&2; exit 1; }; \
		fi; \
		$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]' && echo "$$sum" > .venv/.installed; \
	fi

demo: venv
	@PATH="$(CURDIR)/$(BIN):$$PATH" LOOPENGINE_DEMO_AGENTS="$(CURDIR)/agents" sh docs/demo.sh

test: venv
	@$(BIN)/python -m pytest -n auto --basetemp=.tmp $(PYTEST_ARGS)

check: venv
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy $(PACKAGES)
	@$(BIN)/lint-imports

bench: venv
	@$(BIN)/python -m tests.bench $(BENCH_ARGS)

serve: venv
	@$(BIN)/loopengine serve

clean:
	rm -rf .venv .tmp build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.loopengine/*' -prune -exec rm -rf {} +
