# What a person types. `make` alone says what each target does.

SHELL := /bin/bash
CARGO ?= cargo

.PHONY: help demo test soak conformance install bench fmt lint

help:
	@echo "make demo     installs what is missing (bubblewrap, fuse3), builds, and shows one whole session:"
	@echo "              a scripted agent works in a sandbox, is refused what it may not do, and its work lands"
	@echo "make test     installs what the tests need, then runs every test on real mounts and real sandboxes"
	@echo "make soak     ends the server at SOAK (10000) points, and does as many times more of every random test (hours)"
	@echo "make conformance  runs pjdfstest, fsx and a stress on mounts (hours with all of fsx; see the script)"
	@echo "make install  builds with optimisation and puts aegis-os into ~/.cargo/bin"
	@echo "make bench    measures against the native file system and its neighbours, and prints a table"
	@echo "make fmt      formats the sources"
	@echo "make lint     checks format and lints without running anything"

demo:
	tests/setup.sh run
	$(CARGO) build --locked -p aegis-launcher
	tests/demo/demo.sh target/debug/aegis-os

test:
	tests/setup.sh test
	$(CARGO) build --locked --workspace --bins --tests
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  $(CARGO) nextest run --locked --workspace; \
	else \
	  echo "cargo-nextest is not installed: using cargo test"; \
	  $(CARGO) test --locked --workspace --no-fail-fast; \
	fi

SOAK ?= 10000

soak:
	tests/setup.sh test
	AEGIS_SOAK=$(SOAK) $(CARGO) test --locked --release -p aegisfs -- boundaries blocks changes full_random model mounted power rewound

conformance:
	tests/setup.sh test
	$(CARGO) build --locked --release -p aegis-launcher
	tests/conformance/conformance.sh target/release/aegis-os $(CONFORMANCE)

install:
	tests/setup.sh run
	$(CARGO) install --locked --path launcher
	@echo "aegis-os is in $${CARGO_HOME:-$$HOME/.cargo}/bin; try 'aegis-os doctor', then 'aegis-os run -- bash' in a project"

bench:
	tests/setup.sh bench
	$(CARGO) build --locked --release -p aegis-launcher -p aegis-benches
	target/release/aegis-benches $(BENCH)

fmt:
	$(CARGO) fmt --all

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
