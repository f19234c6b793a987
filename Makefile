# Everything that a person or CI runs. `make demo` and `make test` set up all they need in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WHEEL_SOURCES := Cargo.toml Cargo.lock pyproject.toml README.md \
	$(shell find crates python -type f -not -name '*.so' -not -path '*/__pycache__/*')

.PHONY: demo test lint rust-test python-test bench reading accuracy choices holdout readme \
	evidence verify clean
.DELETE_ON_ERROR:

## demo: build, and replay the bundled recording
demo: $(VENV)/demo.stamp
	$(BIN)/forepass replay

## test: build, and pass every check and test
test: lint rust-test python-test

lint: $(VENV)/test.stamp
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml forepass._core

rust-test:
	cargo build --workspace --all-features
	cargo test --workspace --all-features

python-test: $(VENV)/test.stamp
	$(BIN)/python -m pytest

## bench: measure speed and write benchmarks/evidence/speed.json and fit_speed.json
bench: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/speed.py --write

## reading: replay a million lines and write benchmarks/evidence/reading.json
reading: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/reading.py --write

## accuracy: replay all recordings at hand and write benchmarks/evidence/accuracy.json
accuracy: $(VENV)/demo.stamp
	$(BIN)/python benchmarks/accuracy.py --write

## choices: compare variants of the adaptive fit and write benchmarks/evidence/choices.json
choices: $(VENV)/demo.stamp
	$(BIN)/python benchmarks/choices.py --write

## holdout: predict loads that were not learned and write benchmarks/evidence/holdout.json
holdout: $(VENV)/demo.stamp
	$(BIN)/python benchmarks/holdout.py --write

## readme: write the README's tables from the evidence
readme: $(VENV)/demo.stamp
	$(BIN)/python benchmarks/readme.py

## evidence: measure everything anew that can be, and write the README's tables from it
evidence: bench reading accuracy choices holdout readme

## verify: measure anew what is no timing, and compare it with the evidence as committed
verify: $(VENV)/demo.stamp
	$(BIN)/python benchmarks/verify.py

# The wheel is built once, and that wheel is what is tested.
dist/wheel.stamp: $(WHEEL_SOURCES) $(VENV)/python.stamp
	rm -rf dist
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	touch $@

$(VENV)/python.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than 3.11: name a newer one with make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/demo.stamp: dist/wheel.stamp $(VENV)/python.stamp
	$(BIN)/pip install --quiet --force-reinstall --no-deps dist/*.whl
	$(BIN)/pip install --quiet "$$(echo dist/*.whl)[cli]"
	touch $@

$(VENV)/test.stamp: $(VENV)/demo.stamp
	$(BIN)/pip install --quiet "$$(echo dist/*.whl)[test]"
	touch $@

$(VENV)/bench.stamp: $(VENV)/demo.stamp benchmarks/requirements.txt
	$(BIN)/pip install --quiet -r benchmarks/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) dist target
