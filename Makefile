# make demo: install, link three sentences to MeSH with the trained package, then build, train, evaluate
# and package the demo (a few minutes on two cores)
# make test: install, then run the tests
# make lint: install, then check style (ruff) and types (mypy); "make format" corrects the style
# make docs: install, then build the documentation into site/
# All use the virtual environment .venv and install torch for the CPU. "make DEVICE=gpu demo" installs torch
# for a GPU (several GB).
# make test-scispacy: test together with scispaCy's linker, in .venv-scispacy, because scispaCy needs numpy 1
# and Python 3.12 or older

PYTHON ?= python3
DEVICE ?= cpu
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
INSTALLED := $(VENV)/.installed
SCISPACY_VENV ?= .venv-scispacy
SCISPACY_INSTALLED := $(SCISPACY_VENV)/.installed
PIP_INSTALL := pip install --quiet --disable-pip-version-check
# Install torch first, in its exact version, so that no other package chooses it. The CPU build is on a separate
# index. If pip cannot reach it, pip warns and uses PyPI.
CPU_INDEX := --retries 0 --extra-index-url https://download.pytorch.org/whl/cpu
TORCH = "$$(grep '^torch==' constraints.txt)" $(if $(filter cpu,$(DEVICE)),$(CPU_INDEX))

.PHONY: demo test lint format test-scispacy docs clean

demo: $(INSTALLED)
	$(BIN)/$(PIP_INSTALL) --no-deps releases/en_pel_mesh_sm-*.whl
	$(BIN)/python project/scripts/first_links.py
	cd project && $(BIN)/python -m spacy project run all

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests --numprocesses 2

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

test-scispacy: $(SCISPACY_INSTALLED)
	$(SCISPACY_VENV)/bin/$(PIP_INSTALL) --no-deps releases/en_pel_mesh_sm-*.whl
	$(SCISPACY_VENV)/bin/python -m pytest tests/scispacy

# The names in registry.py become installed entry points.
$(INSTALLED): setup.py constraints.txt spacy_pel/registry.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(PIP_INSTALL) $(TORCH)
	$(BIN)/$(PIP_INSTALL) -c constraints.txt -e ".[$(DEVICE),project,test,transformers,docs]"
	touch $@

# The same versions, without packages that need numpy 2, which scispaCy refuses.
$(SCISPACY_INSTALLED): setup.py constraints.txt spacy_pel/registry.py
	$(PYTHON) -m venv $(SCISPACY_VENV)
	grep -vE '^(numpy|ml_dtypes|pandas)==' constraints.txt > $(SCISPACY_VENV)/constraints.txt
	$(SCISPACY_VENV)/bin/$(PIP_INSTALL) $(TORCH)
	$(SCISPACY_VENV)/bin/$(PIP_INSTALL) --only-binary scipy -c $(SCISPACY_VENV)/constraints.txt -e ".[cpu,test,transformers]" scispacy==0.6.2
	touch $@

clean:
	rm -rf $(VENV) $(SCISPACY_VENV) site project/kb project/training project/metrics project/output project/packages project/project.lock
