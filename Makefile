# Everything a checkout needs, in a virtual environment of its own. A bare Debian has to have
# python3-venv, make and git; python3 must be 3.11 or newer.
#
#   make demo         train block-diagonal on Sum(5) and print its report
#   make test         the test suite
#   make test-fast    the quick part of it, two minutes: modules, no whole commands and nothing slow
#   make check        formatting, lint, types, dependency directions
#   make tables       every published table again, from the files in results/
#   make reproduce TABLE=fan2024_table2   that table from scratch, to compare; goes on where it stopped
#   make wheel-test   build, install in a clean environment, use from an unrelated folder
#   make oracles-test  models against other people's code, and kernels in triton's interpreter; installs both
#   make slurm-test   a sweep through a real one-node SLURM, started for it (Debian, root)
#   make faults       1,000 faults in real programs: kills, failed writes, damaged files (hours);
#                     FAULTS=100 SEED=2 for others; goes on where it stopped
#                     (python -m tests.faults.fresh_sweeps --slurm kills sweeps through a SLURM)
#   make fuzz         5,000 wrong command lines and 2,000 damaged files (two hours)
#   make mutants      200 changed places of the package, each of which the tests ought to notice (hours)
#   make docs         the pages as a site, build/site; a link that leads nowhere is an error
#   make clean        remove what make made; outputs/ is yours and stays

PYTHON ?= python3
VENV ?= .venv
# More words for every `pip install`, such as the index that holds torch's CPU build (see README).
PIP_EXTRA ?=
# Files of tests side by side, two at a time, in the order of tests/conftest.py; one after the
# other: PYTEST_ARGS=-x
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder

bin := $(VENV)/bin
pip_install := $(bin)/python -m pip install --disable-pip-version-check $(PIP_EXTRA) -c constraints.txt
# The package is there already: pip adds what an extra asks for, and builds nothing again.
installed := lrbench-extrapolation
slurm := ../shared/tools/slurm_one_node.sh
requirements := pyproject.toml constraints.txt

.PHONY: demo test test-fast check tables reproduce wheel-test oracles-test slurm-test faults fuzz mutants docs clean
.NOTPARALLEL: # two pips in one environment trip over each other

demo: $(VENV)/.installed
	$(bin)/lrbench train task=sum model=blockdiag
	$(bin)/lrbench report

# Tests start hundreds of programs: each would compile the package where Python may not write.
compiled = $(bin)/python -m compileall -q lrbench

test: $(VENV)/.installed-dev
	$(compiled)
	$(bin)/python -m pytest $(PYTEST_ARGS)

test-fast: $(VENV)/.installed-dev
	$(compiled)
	$(bin)/python -m pytest $(PYTEST_ARGS) -m 'unit and not slow'

check: $(VENV)/.installed-dev
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(bin)/mypy
	$(bin)/lint-imports

tables: $(VENV)/.installed-dev
	$(bin)/python -m benchmarks.pages results
	$(bin)/lrbench publish --rebuild results --page README.md

# Tables of times are measured, the others swept. A table with some failed runs is still published;
# the exit code is that of the sweep.
reproduced := outputs/reproduced
page = $(reproduced)/published/$(TABLE)
reproduce: $(VENV)/.installed-dev
	@test -n '$(TABLE)' || { echo 'which one? make reproduce TABLE=fan2024_table2' >&2; exit 2; }
	@case '$(TABLE)' in \
	fan2024_speed|rir_table1) set -ex; mkdir -p $(page)/records; \
	  $(bin)/lrbench bench $(TABLE) --output $(page)/records/$(TABLE).json; \
	  $(bin)/python -m benchmarks.pages $(page);; \
	lmu_speed) set -ex; mkdir -p $(page)/records; $(bin)/python -m benchmarks.lmu_speed --write; \
	  cp benchmarks/results/lmu_speed.json benchmarks/results/lmu_speed_length.csv $(page)/records; \
	  $(bin)/python -m benchmarks.pages $(page);; \
	*) set -x; $(bin)/lrbench sweep --table $(TABLE) output_dir=$(reproduced)/$(TABLE); code=$$?; \
	  [ '$(TABLE)' != length_curves ] || [ "$$code" -gt 1 ] || for which in last best; do \
	    $(bin)/lrbench evaluate --table length_curves --runs $(reproduced)/$(TABLE) \
	      --lengths 10007,20011,50021,100003 --strings 400 --which $$which || code=$$?; done; \
	  [ "$$code" -gt 1 ] || \
	  $(bin)/lrbench publish $(TABLE) --runs $(reproduced)/$(TABLE) --output $(reproduced)/published \
	  && exit $$code;; \
	esac

wheel-test: $(VENV)/.installed-dev
	PYTHON='$(PYTHON)' PIP_EXTRA='$(PIP_EXTRA)' tests/wheel_install.sh '$(abspath $(bin)/python)'

oracles-test: $(VENV)/.installed-oracles
	LRBENCH_ORACLES_REQUIRED=1 $(bin)/python -m pytest $(PYTEST_ARGS) tests/oracles/test_delta.py tests/oracles/test_mamba.py tests/oracles/test_xlstm.py tests/oracles/test_foreign.py tests/scan/fused tests/trust/test_fused.py

# Without the script, root or packages (no network) there is no SLURM, and the tests say so and skip.
slurm-test: $(VENV)/.installed-dev
	@if sinfo -h >/dev/null 2>&1; then started=; export LRBENCH_SLURM=1; \
	  elif [ -x '$(slurm)' ] && [ "$$(id -u)" = 0 ] && '$(slurm)' start; then \
	    started=1; export LRBENCH_SLURM=1; fi; \
	$(bin)/python -m pytest -k slurm tests/end_to_end/test_launchers.py; code=$$?; \
	[ -z "$$started" ] || '$(slurm)' stop; exit $$code

FAULTS ?= 1000
SEED ?= 0
faults: $(VENV)/.installed-dev
	$(bin)/python -m tests.faults.campaign --faults $(FAULTS) --seed $(SEED) \
	  --attempts outputs/faults/seed$(SEED).jsonl

fuzz: $(VENV)/.installed-dev
	$(bin)/python -m tests.faults.fuzz --seed $(SEED)

mutants: $(VENV)/.installed-dev
	$(pip_install) -q $(installed)'[mutants]'
	$(bin)/python -m pytest -q tests/faults/test_mutants.py
	$(bin)/python -m tests.faults.mutants --seed $(SEED) --outcomes outputs/mutants/seed$(SEED).jsonl

docs: $(VENV)/.installed-dev
	$(pip_install) -q $(installed)'[docs]'
	NO_MKDOCS_2_WARNING=1 $(bin)/python -m mkdocs build

clean:
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find benchmarks lrbench tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is touched only when its step went through, so an interrupted one is done again.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "lrbench needs Python 3.11 or newer; choose one: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created $(requirements)
	$(pip_install) -e '.[fast,parallel,plot]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.created $(requirements)
	$(pip_install) -e '.[dev]'
	@touch $(VENV)/.installed $@

# CUDA builds of torch bring a triton of their own; elsewhere its interpreter runs the fused kernels.
$(VENV)/.installed-oracles: $(VENV)/.installed-dev
	$(pip_install) -q $(installed)'[oracles]'
	$(bin)/python -c 'import triton' 2>/dev/null || { $(pip_install) -q triton && $(bin)/python -c 'import triton'; }
	@touch $@
