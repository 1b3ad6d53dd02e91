PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-slow check lint types layers setup clean bench-recipe bench-step bench-guards bench-record bench-launch bench-data bench-data_costs bench-start bench-input-bound bench-input_bound bench-layouts bench-gpu_memory bench-plan_memory bench-plan_compare bench-plan_tables bench-tune bench-tune-real bench-tune_real chaos soak docs

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("hemostat needs Python 3.11 or newer, found %s; use make PYTHON=python3.11" % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/hemostat train examples/bytegpt.py:ByteGPT --nproc 2

test: setup
	$(BIN)/python -m pytest -m 'not slow' -n auto --dist worksteal

test-slow: setup
	$(BIN)/python -m pytest -m slow

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

check: lint layers types test

bench-recipe: setup
	$(BIN)/python bench/recipe.py

bench-step: setup
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python bench/step.py

bench-guards: setup
	$(BIN)/python bench/guards.py

bench-data: setup
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python bench/data.py

bench-data_costs: setup
	$(BIN)/python bench/data_costs.py

bench-layouts: setup
	$(BIN)/python bench/layouts.py

bench-gpu_memory: setup
	$(BIN)/python bench/gpu_memory.py

bench-plan: setup
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python bench/plan.py

bench-plan_memory: setup
	$(BIN)/python bench/plan_memory.py

bench-plan_compare: setup
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python bench/plan_compare.py

bench-plan_time: setup
	$(BIN)/python bench/plan_time.py

bench-plan_tables: setup
	$(BIN)/python bench/plan_tables.py

bench-plan_trace: setup
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python bench/plan_trace.py

bench-tune: setup
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[tune]'
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python bench/tune.py

bench-tune-real: bench-tune_real

bench-tune_real: setup
	$(BIN)/python bench/tune_real.py

bench-record: setup
	$(BIN)/python bench/record.py

bench-launch: setup
	$(BIN)/python bench/launch.py

bench-start: setup
	$(BIN)/python bench/start.py

bench-input-bound: bench-input_bound

bench-input_bound: setup
	$(BIN)/python bench/input_bound.py

chaos: setup
	$(BIN)/python tests/chaos/chaos.py

soak: setup
	$(BIN)/python tests/chaos/soak.py

docs: setup
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
