# `make run` and `make test` each set everything up by themselves; a second call reuses .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= 2  # notebooks at a time
# Writes what the explorers compute, which is not committed, and the table of colours, which is.
EQUATIONS := from pathlib import Path; from snnkit.lab.viz import concepts; from snnkit.lab.viz.explorers import equations; equations.write(Path("js/src/explorers/equations.js")); concepts.write(Path("js/src/concepts.js"))

.PHONY: setup run lab site test test-all gpu lint web format lock release peers clean

setup: $(STAMP)

# The lock pins torch too, so pip never replaces it by a newer build than the one everything was tested with.
$(STAMP): pyproject.toml constraints/lock.txt
	@$(PYTHON) -c 'import sys; sys.exit("snnkit needs Python 3.10 or newer; set PYTHON=/path/to/python3") if sys.version_info < (3, 10) else 0'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing snnkit and its tools into $(VENV) (first time only, a few minutes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints/lock.txt -e '.[all]'
	@$(BIN)/snnkit doctor --warm || true
	@touch $@

run: setup  ## execute every notebook headless in QUICK mode; writes build/report.html and build/report.json
	$(BIN)/snnkit run --out build --jobs $(JOBS)

lab: setup  ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab notebooks

site: JOBS = 1  # the times that notebooks measure are published, so each runs alone
site: run  ## README, executed notebooks, workshop and reference as a web site, links checked: build/site/html
	$(BIN)/snnkit site --out build/site

test: setup  ## the tests that find defects fast
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# Three workers for two cores, as tests wait for browsers, kernels and ranks: 0.86 of the time of two workers.
test-all: setup  ## the rest: Colab's versions, browser, SLURM, four kills, site, wheel
	$(BIN)/python -m pytest -n 3 --dist worksteal -m slow

# Not in .venv: the Python at hand, as its PyTorch fits the driver of the machine.
gpu:  ## what needs a CUDA device: tests, then benchmarks that write records into build/gpu; under 9 minutes
	$(PYTHON) -m tests.gpu --out build/gpu

lint: setup  ## ruff, pyright, the pairing of the notebooks, how long the sentences are (a report); types, linter and tests of js/
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/snnkit build --check
	$(BIN)/python docs/readability.py
	$(BIN)/python -c '$(EQUATIONS)'
	npm ci --prefix js
	npm run check --prefix js

web: setup  ## build the scripts of pages, explorers and cards from js/ (needs node and npm)
	$(BIN)/python -c '$(EQUATIONS)'
	npm ci --prefix js
	npm run build --prefix js

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snnkit build

lock: setup  ## resolve constraints/lock.txt anew from the ranges in pyproject.toml (needs uv)
	uv pip compile --universal --python-version 3.10 --no-annotate --no-header --extra all \
	  --constraint constraints/torch.txt --output-file constraints/lock.txt --quiet pyproject.toml

# The environment is empty, and a learner's: the wheel with [course], in the versions of the lock. Nothing is uploaded.
release: setup  ## wheel and sdist in dist/: checked, installed into an empty environment, notebook 00 run from there
	rm -rf dist build/release
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m check_wheel_contents dist/*.whl
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --quiet --disable-pip-version-check -c constraints/lock.txt "$$(echo dist/*.whl)[course]"
	build/release/bin/snnkit lab --no-open --to build/release/course
	cd build/release/course && ../bin/snnkit run 00

peers: setup  ## other libraries to measure against; without their dependencies, so that they leave torch alone
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  spikingjelly==2.0.0 snntorch==1.0.0 norse==1.1.0 sinabs==3.1.3 nir==1.0.8 nirtorch==2.6 h5py loguru pbr
	@test -x .peers/bin/python || $(PYTHON) -m venv .peers  # JAX has an environment of its own
	.peers/bin/python -m pip install --quiet --disable-pip-version-check spyx==1.0.0 jax==0.10.2 flax==0.12.8 \
	  'brainevent[cpu]==0.2.1' || echo "Spyx and brainevent are left out: they need Python 3.11 or newer"

clean:
	rm -rf $(VENV) .peers build dist .pytest_cache .hypothesis .ruff_cache .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
