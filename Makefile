# Every target prepares what it needs: on a fresh machine `make demo` or `make test`
# is the first and only command.
.DEFAULT_GOAL := help
.PHONY: help install demo gates test long check slow studies lint format types notebooks bench peers \
	wheel release-check readme doctest docs lock clean

VENV ?= .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
OUT ?= out/wine
# Cores that a target may use; `.ci/run` gives each step one, and runs two at once.
WORKERS ?= 2
# Tests of one file share what they compile, so that a file stays with one worker.
PYTEST := -m pytest -q -n $(WORKERS) --dist loadfile --durations=10

# Compiling is most of what tests, gates and notebooks wait for: they share what JAX
# compiled in one folder, which a second run finds. Users' processes are left alone.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/out/compiled
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
# Each worker has a core. Threads of BLAS would wait for one another on it, and use it up.
test long check slow studies doctest gates notebooks: export OMP_NUM_THREADS ?= 1
# Annotations are checked at run time by `make check`.
slow studies gates: export JAXTYPING_DISABLE ?= 1
# Without bytecode on disk each process that tests checks all annotations anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 15

install: $(STAMP) ## make .venv and install the exact versions of requirements.lock

# The stamp is newer than the lock exactly when what is installed is what is locked.
# The lock names everything, so that nothing is resolved; `pip check` says what does not
# fit. Most modules are never imported: bytecode is made of those that are.
$(STAMP): requirements.lock pyproject.toml tools/find_python.sh
	@python=$$(sh tools/find_python.sh) && \
	{ [ -x $(PY) ] && $(PY) -c 'import sys; sys.exit(sys.version_info < (3, 12))' \
	  2>/dev/null || "$$python" -m venv --clear $(VENV); }
	@echo "Installing into $(VENV) (a minute or two the first time) ..."
	@sed '/^#/d' requirements.lock | xargs -P $(WORKERS) -n 20 \
	  $(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps \
	  --no-build-isolation --editable .
	@$(PY) -m pip check --disable-pip-version-check
	@touch $@

demo: $(STAMP) ## learn a distance on the Wine data, check it, and write out/wine/report.html
	@$(PY) tools/demo.py
	@echo "The formulas of LCA, against independent computations, and its model against the data:"
	@$(VENV)/bin/probmetric validate lca --data wine --quick --quiet --out $(OUT) --force

# XLA's optimizations cost more time than these small problems get back. The slow
# tests, notebooks and the demo, which judges LCA's gates, run what users run.
test: $(STAMP) ## run the fast tests
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(PY) $(PYTEST) $(ARGS)

long: $(STAMP) ## run the tests that take seconds
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(PY) $(PYTEST) -m "long and not slow and not study" $(ARGS)

# In one session: files are read, and what tests share is made, once.
check: $(STAMP) ## run the fast tests and those that take seconds
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(PY) $(PYTEST) -m "not slow and not gate and not study" $(ARGS)

slow: $(STAMP) ## run the long statistical tests
	$(PY) $(PYTEST) -m "slow and not study" $(ARGS)

studies: $(STAMP) ## run what takes minutes each, before a release
	$(PY) $(PYTEST) -m study $(ARGS)

doctest: $(STAMP) ## run the examples of docstrings
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(PY) $(PYTEST) --doctest-modules $$(grep -rl --include='*.py' '>>> ' probmetric)

# As `probmetric validate --all --quick`, and then with --break, but by two workers:
# right claims must pass, and wrong ones in their place must be rejected.
gates: $(STAMP) ## check every model's quick claims, and that every gate can fail
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(PY) $(PYTEST) --dist loadgroup -m gate tests/test_contract.py $(ARGS)

lint: $(STAMP) ## check style and formatting
	$(PY) -m ruff check .
	$(PY) -m ruff check --isolated --select F821 benchmarks tools
	$(PY) -m ruff format --check .

format: $(STAMP) ## mend style and formatting
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

types: $(STAMP) ## check types
	$(PY) -m pyright --threads $(WORKERS)

notebooks: $(STAMP) ## execute every notebook, compare with its output; ARGS=--store keeps the new
	$(PY) tools/notebooks.py --jobs $(WORKERS) $(ARGS)

# peers_metric_learn.py runs in another environment: `make peers`.
BENCH ?= $(filter-out benchmarks/peers%,$(wildcard benchmarks/*.py))
bench: $(STAMP) ## run the benchmarks, or BENCH=benchmarks/one.py
	@set -e; for script in $(BENCH); do echo "== $$script"; $(PY) $$script; done

PEERS := .venv-peers
PEERS_OPTIONS := $(if $(DATA),--data $(DATA)) $(if $(SEEDS),--seeds $(SEEDS))

# metric-learn fits nothing beside the scikit-learn in use here.
$(PEERS)/.installed: benchmarks/peers_requirements.txt tools/find_python.sh
	@python=$$(sh tools/find_python.sh) && "$$python" -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -r benchmarks/peers_requirements.txt
	@touch $@

peers: $(STAMP) $(PEERS)/.installed ## compare with peers; DATA=FOLDER SEEDS=3
	$(PY) benchmarks/accuracy.py write-problems $(DATA)
	$(PEERS)/bin/python benchmarks/peers_metric_learn.py out/peers
	$(PY) benchmarks/accuracy.py peers --out out/peers $(PEERS_OPTIONS)

wheel: $(STAMP) ## build dist/*.tar.gz and, from it, dist/*.whl
	$(PY) -m build --no-isolation --outdir dist .

release-check: $(STAMP) ## install the wheel elsewhere, lowest and newest, and test it; ARGS=
	$(PY) tools/release_check.py $(ARGS)

readme: $(STAMP) ## write the table of learners; ARGS=figures redraws docs/*.png
	$(PY) tools/readme.py $(ARGS)

# Notebooks are shown with their stored output; a second run builds what has changed.
SITE ?= out/site
docs: $(STAMP) ## build the site in out/site, check its links, and use it in a browser
	$(PY) -m sphinx -W --keep-going -q -c docs -d $(SITE)_trees . $(SITE)
	$(PY) tools/site_links.py $(SITE)
	$(PY) tools/site_browser.py $(SITE)

lock: ## write requirements.lock again, from the newest versions
	@python=$$(sh tools/find_python.sh) && "$$python" tools/lock.py requirements.lock

clean: ## remove everything that is built
	rm -rf $(VENV) $(PEERS) build dist out .pytest_cache .ruff_cache .hypothesis
