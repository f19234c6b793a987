# Everything that a person or CI runs. `make demo` and `make test` set up all they need in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RECORD_VENV := .venv-record
WHEEL_SOURCES := Cargo.toml Cargo.lock pyproject.toml README.md \
	$(shell find crates python -type f -not -name '*.so' -not -path '*/__pycache__/*')
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
MINIMUM_RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: demo test lint rust-test python-test parity minimum-rust bench reading accuracy recorded \
	choices holdout readme docs evidence verify record goldens wheel portable-wheel sdist check-tag \
	clean
.DELETE_ON_ERROR:

## demo: build, and replay the bundled recording
demo: $(VENV)/demo.stamp
	$(BIN)/forepass replay

## test: build, and pass every check and test
test: lint rust-test python-test parity

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
	$(BIN)/python -m pytest tests

## parity: compare the numbers with the oracle that was written from the specification alone
parity: $(VENV)/test.stamp
	$(BIN)/python -m pytest parity_tests

## minimum-rust: build the core with the oldest Rust that Cargo.toml names
minimum-rust:
	rustup toolchain install $(MINIMUM_RUST) --profile minimal
	cargo +$(MINIMUM_RUST) build --package forepass

## bench: measure speed and write benchmarks/evidence/speed.json and fit_speed.json
bench: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/speed.py --write

## reading: replay a million lines and write benchmarks/evidence/reading.json
reading: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/reading.py --write

## accuracy: replay all recordings at hand and write benchmarks/evidence/accuracy.json
accuracy: $(VENV)/demo.stamp
	$(BIN)/python benchmarks/accuracy.py --write

## recorded: replay benchmarks/recordings and write benchmarks/evidence/recorded.json
recorded: $(VENV)/demo.stamp
	$(BIN)/python benchmarks/recorded.py --write

## choices: compare variants of the adaptive fit and write benchmarks/evidence/choices.json
choices: $(VENV)/demo.stamp
	$(BIN)/python benchmarks/choices.py --write

## holdout: predict loads that were not learned and write benchmarks/evidence/holdout.json
holdout: $(VENV)/demo.stamp
	$(BIN)/python benchmarks/holdout.py --write

## readme: write the tables of README and docs/accuracy.md from the evidence
readme: $(VENV)/demo.stamp
	$(BIN)/python benchmarks/readme.py
	$(BIN)/python benchmarks/accuracy_page.py

## docs: write everything in the pages that is written by a script
docs: readme
	$(BIN)/python docs/launch_matrix.py --write
	$(BIN)/python docs/trtllm_stats.py --write
	$(BIN)/python docs/api_reference.py --write

## evidence: measure everything anew that can be, and write the tables of the pages from it
evidence: bench reading accuracy recorded choices holdout readme

## verify: measure anew what is no timing, and compare it with the evidence as committed
verify: $(VENV)/demo.stamp
	$(BIN)/python benchmarks/verify.py

## record: record a real vLLM on CPU, as in make record SCENARIO=moe SECONDS=60 SEED=0 OUT=recordings
record: $(RECORD_VENV)/stamp
	$(RECORD_VENV)/bin/python benchmarks/record_vllm_cpu.py $(addprefix --scenario ,$(SCENARIO)) \
		$(addprefix --seconds ,$(SECONDS)) $(addprefix --seed ,$(SEED)) $(addprefix --out ,$(OUT))

## goldens: freeze new numbers; ARGS='--refresh KEY --reason TEXT' freezes one anew
goldens: $(VENV)/demo.stamp
	$(BIN)/python goldens/pin.py $(ARGS)

## wheel: build the wheel for this system in dist
wheel: dist/wheel.stamp

## portable-wheel: build the wheel in dist for all Linux systems with glibc 2.17 or newer
portable-wheel: $(VENV)/python.stamp
	$(BIN)/pip install --quiet 'maturin[zig]>=1.9,<2'
	rm -rf dist
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin build --release --locked --zig \
		--compatibility manylinux2014 --out dist
	touch dist/wheel.stamp

## sdist: pack the sources in dist
sdist: $(VENV)/python.stamp
	$(BIN)/pip install --quiet 'maturin>=1.9,<2'
	$(BIN)/maturin sdist --out dist

## check-tag: whether TAG names the version of Cargo.toml
check-tag:
	@test "$$TAG" = "v$(VERSION)" || \
		{ echo "the tag $$TAG is not that of version $(VERSION): v$(VERSION)"; exit 1; }

# The wheel is built once, and that wheel is what is tested.
dist/wheel.stamp: $(WHEEL_SOURCES) | $(VENV)/python.stamp
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

# Engines and their libraries are many and large: they have an environment of their own.
$(RECORD_VENV)/stamp: benchmarks/record_requirements.txt
	$(PYTHON) -m venv $(RECORD_VENV)
	$(RECORD_VENV)/bin/pip install --quiet --no-deps -r $<
	touch $@

clean:
	rm -rf $(VENV) $(RECORD_VENV) dist target
