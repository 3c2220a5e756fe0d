# Every target sets up .venv by itself. PYTHON picks the interpreter the environment is made from.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCHMARKS := $(sort $(wildcard benchmarks/bench_*.py))
INPUTS := pyproject.toml setup.py constraints.txt $(wildcard native/*.cpp native/*.h native/*.hpp)

.PHONY: demo test check bench docs native-matrix clean
.DELETE_ON_ERROR:

demo: $(READY)
	$(BIN)/sakura demo

test: $(READY)
	$(BIN)/pytest

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/test_layout.py

bench: $(READY)
	set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python "$$script"; done

docs: $(READY)
	$(BIN)/pytest tests/test_layout.py -k docs

native-matrix: $(READY)
	$(BIN)/python -m pip install -qq ziglang
	$(BIN)/python native/build_matrix.py
	$(BIN)/python -m tests.codec.vectors build/matrix/vectors
	$(BIN)/pytest -rs tests/codec/test_conform.py

clean:
	rm -rf $(VENV) build dist out

$(READY): $(INPUTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "SAKURA needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1)." >&2; \
	  echo "hint: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq -c constraints.txt -e '.[http,cloud,torch,serve,viz,bench,dev]'
	@test -e src/sakura/codec/_core.so || { \
	  echo "The native codec core was not built; the numpy codec does the same, slowly." >&2; \
	  echo "hint: install g++ 10 or newer (or clang), then: make clean $(MAKECMDGOALS)" >&2; }
	@touch $@
