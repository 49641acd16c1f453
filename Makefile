# make run    build, fetch the default model, serve on http://127.0.0.1:8000  (PORT=, ARGS=)
# make test   the whole test suite
# make check  formatting, lint, types, import rules
# make chaos  a hundred faults under load, and what became of the requests  (ARGS=--seed 7)
# make fuzz   each fuzzer for FUZZ_SECONDS, 60 if not said otherwise
# make fuzz-http  schemathesis against the served OpenAPI document
# make clean  removes the environment and all builds, but not the rivals
# make sanitize   the kernels' tests with bounds and undefined behaviour checked, and the team's with races

PYTHON ?= python3
PORT ?= 8000
ARGS ?=
FUZZ_SECONDS ?= 60
BIN := .venv/bin
NATIVE := CMakeLists.txt $(wildcard native/src/*)
SOURCES := $(wildcard native/*/*.h native/*/*.cpp)

TOOLS := $(CURDIR)/$(BIN)
SANITIZED := build/sanitize
CONFIGURE = $(BIN)/cmake -G Ninja -S . -DCMAKE_MAKE_PROGRAM=$(TOOLS)/ninja -DPython_EXECUTABLE=$(TOOLS)/python

.PHONY: run test check chaos fuzz fuzz-http sanitize format clean

run: .venv/installed
	@exec $(BIN)/twinfer serve --port $(PORT) $(ARGS)

test: .venv/tools
	$(BIN)/python -m pytest

check: .venv/tools
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run --Werror $(SOURCES)
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright

fuzz-http: .venv/fuzz
	$(BIN)/python -m tests.api.fuzz --max-examples 500 $(ARGS)

chaos: .venv/tools
	$(BIN)/python -m tests.chaos $(ARGS)

fuzz: .venv/fuzz
	@for target in gguf folder template messages bodies; do \
		mkdir -p build/fuzz/$$target; \
		echo "Fuzzing $$target for $(FUZZ_SECONDS) s; findings go to build/fuzz/$$target-*"; \
		$(BIN)/python -m tests.fuzz $$target -max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=4096 \
			-print_final_stats=1 -artifact_prefix=build/fuzz/$$target- \
			build/fuzz/$$target tests/fuzz/corpus/$$target || exit 1; \
	done

sanitize: .venv/tools .venv/sanitize
	$(CONFIGURE) -B $(SANITIZED)/thread -DTWINFER_SANITIZE=thread
	$(BIN)/cmake --build $(SANITIZED)/thread --target team_stress
	$(SANITIZED)/thread/team_stress 5
	$(CONFIGURE) -B $(SANITIZED)/address -DTWINFER_SANITIZE=address
	$(BIN)/cmake --build $(SANITIZED)/address --target _native
	TWINFER_NATIVE=$$(echo $(SANITIZED)/address/_native*.so) ASAN_OPTIONS=detect_leaks=0 \
		LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libubsan.so)" \
		$(BIN)/python -m pytest -p tests.native.sanitized tests/native --ignore tests/native/test_golden.py \
		-k "not (long_contexts and generic)"

format: .venv/tools
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $(SOURCES)

clean:
	rm -rf .venv
	@if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name rivals -exec rm -rf {} +; fi

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

.venv/fuzz .venv/sanitize: .venv/%: .venv/tools
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group $*
	@touch $@
