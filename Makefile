# make        set up .venv, build, install Narthex into it
# make line   f in every way that Narthex runs a program: one row a way
# make test   all tests (installs PyTorch as the oracle, and packages whose modules are captured)
# make test-packages  public packages, unmodified (installs them)
# make demo   a GPT trained on real text, compiled and eagerly; its text from Python and from C; without PyTorch
# make wheel  a wheel in dist/, tried in an empty environment
# Further: make bench, make bench-models, make bench-ops, make bench-calls, make check-hostile, make clean.
# PYTHON=python3.12, python3.13 or python3.14 for another version of CPython than 3.11: `make test` runs what needs no PyTorch there.
PYTHON ?= python3.11
export PYTHON
PY := .venv/bin/python
SHELL := bash
export PATH := $(CURDIR)/.venv/bin:$(PATH)
SOURCES := $(shell find src ops gen py python plugins include -type f -not -name '*.pyc') meson.build meson.options pyproject.toml ops.txt

.PHONY: all setup setup-versions setup-demo setup-test setup-bench setup-packages setup-hostile setup-wheel line test test-packages wheel demo bench bench-models bench-ops bench-calls check-hostile clean
all: .venv/narthex.done

setup:
	@tools/setup.sh
setup-demo:
	@tools/setup.sh demo
setup-test:
	@tools/setup.sh test
setup-bench:
	@tools/setup.sh bench
setup-packages:
	@tools/setup.sh packages
setup-hostile:
	@tools/setup.sh hostile
setup-wheel:
	@tools/setup.sh wheel

.venv/narthex.done: $(SOURCES) | setup
	$(PY) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -Cbuild-dir=build/release .
	@touch $@

line: setup-test all
	$(PY) -m tests.line

ifneq ($(filter %3.12 %3.13 %3.14,$(PYTHON)),)
setup-versions:
	@tools/setup.sh versions
test: setup-versions all
	$(PY) -m pytest -q -n auto tests/capture
else
test: setup-test all build/unit/done
	NARTHEX_VERSIONS=1 $(PY) -m pytest -q -n auto --durations=15 --ignore=tests/packages tests
endif

test-packages: setup-packages all
	$(PY) -m pytest -q tests/packages tests/capture/test_modules.py

build/unit/done: $(SOURCES) $(shell find tests/unit -type f) | setup-test
	@[ -d build/unit/meson-info ] || meson setup build/unit --buildtype=debugoptimized -Dunit=true >/dev/null
	ninja -C build/unit >build/unit/log 2>&1 || { tail -40 build/unit/log; exit 1; }
	@touch $@

wheel: setup-wheel all
	tools/wheel.sh

demo: setup-demo all
	$(PY) -m examples.demo

bench: setup-test all
	$(PY) -m bench

bench-models: setup-bench all
	$(PY) -m bench.models

bench-ops: setup-test all
	$(PY) -m bench.ops

bench-calls: setup-test all
	$(PY) -m bench.calls

check-hostile: setup-hostile all
	$(PY) -m tests.hostile

clean:
	rm -rf build .venv
