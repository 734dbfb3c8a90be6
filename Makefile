# make demo: install, then build, train, evaluate and package the demo (a few minutes on two cores)
# make test: install, then run the tests
# Both work in a virtual environment of their own, in .venv.

PYTHON ?= python3
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test clean

demo: $(INSTALLED)
	cd project && $(BIN)/python -m spacy project run all

test: $(INSTALLED)
	$(BIN)/python -m pytest tests

# torch goes first and by its exact version, so that no other package chooses it.
$(INSTALLED): setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[cpu,project,test]"
	touch $@

clean:
	rm -rf $(VENV) project/kb project/training project/metrics project/output project/packages project/project.lock
