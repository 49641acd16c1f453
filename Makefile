# make run    build, fetch the default model, serve on http://127.0.0.1:8000  (PORT=, ARGS=)
# make test   the whole test suite
# make check  formatting, lint, types, import rules
# make chaos  a hundred faults under load, and what became of the requests  (ARGS=--seed 7)

PYTHON ?= python3
PORT ?= 8000
ARGS ?=
BIN := .venv/bin
NATIVE := CMakeLists.txt $(wildcard native/src/*)

.PHONY: run test check chaos format clean

run: .venv/installed
	@exec $(BIN)/twinfer serve --port $(PORT) $(ARGS)

test: .venv/tools
	$(BIN)/python -m pytest

check: .venv/tools
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run --Werror $(wildcard native/src/*.h native/src/*.cpp)
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright

chaos: .venv/tools
	$(BIN)/python -m tests.chaos $(ARGS)

format: .venv/tools
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $(wildcard native/src/*.h native/src/*.cpp)

clean:
	rm -rf .venv build

.venv/installed: pyproject.toml $(NATIVE)
	@command -v $${CXX:-c++} >/dev/null || { echo "twinfer: no C++ compiler found; install one (Debian: apt install g++) or set CXX" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing Twinfer and building its kernels; this takes a minute or two the first time ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/tools: .venv/installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group test --group check
	@touch $@
