# Two commands from clone to proof: `make demo` and `make test`. Each target first installs what it needs and is missing.
#
# Build output goes outside of the clone, so that a fresh clone does not start from nothing; override with CARGO_TARGET_DIR.

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/staunch
export CARGO_TARGET_DIR ?= $(CACHE)/target
export FLINKBENCH_WORK ?= $(CACHE)/flink
export CARGO_TERM_PROGRESS_WHEN ?= never

# What the own benchmarks are asked for; `make bench BENCH="count-100k --parallelism 2"`.
BENCH ?= all
# Options of the comparison; `make bench-flink COMPARE="--passes 1 --rows q0read,count-100k"`.
COMPARE ?=
# The same of the one with Kafka; `make bench-kafka COMPARE_KAFKA="--passes 1 --rows copy-100B-1p,latency-1p"`.
COMPARE_KAFKA ?=
SOAK_SECONDS ?= 3600
FUZZ_CASES ?= 20000

CARGO := scripts/cargo
STEP = @printf '\n==> %s\n'

.DEFAULT_GOAL := help
.PHONY: help demo staunch test lint fmt clippy tidy test-all bench bench-flink bench-kafka soak fuzz docs

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## a real stream, killed again and again; ends with the proof that nothing is lost or doubled
	@scripts/install.sh build
	$(STEP) "build; the first time takes some minutes"
	@$(CARGO) build --release --locked -p staunch --bin staunch
	$(STEP) "demo"
	@$(CARGO) run --quiet --release --locked -p staunch --bin staunch -- demo

staunch: ## the command `staunch` with Kafka; needs C and C++
	@scripts/install.sh lint
	$(STEP) "build the command with Kafka"
	@$(CARGO) build --release --locked -p staunch --bin staunch --features kafka
	@printf 'built: %s\n' "$(CARGO_TARGET_DIR)/release/staunch"

test: ## everything: format, tidy, lints, all tests
	@scripts/install.sh test
	@$(MAKE) --no-print-directory fmt tidy clippy test-all
	$(STEP) "all steps passed"

lint: ## format, tidy, lints
	@scripts/install.sh lint
	@$(MAKE) --no-print-directory fmt tidy clippy

bench: ## own workloads
	@scripts/install.sh lint
	$(STEP) "own workloads: $(BENCH)"
	$(CARGO) run --release --locked -p staunch-bench -- $(BENCH)

bench-flink: ## side by side with Flink and a plain loop, in one run on one machine
	@scripts/install.sh bench-flink
	$(STEP) "set up Flink in $(FLINKBENCH_WORK)"
	@bench/flink/setup_flink.sh
	$(STEP) "build ours and the plain loops"
	$(CARGO) build --release --locked -p staunch-bench
	$(CARGO) build --release --locked --manifest-path bench/limit/Cargo.toml
	$(STEP) "compare"
	@bench/compare.py $(COMPARE)

bench-kafka: ## from Kafka to Kafka, side by side with Flink and a bare loop over librdkafka, on one broker
	@scripts/install.sh bench-kafka
	$(STEP) "set up Flink with its Kafka connector in $(FLINKBENCH_WORK)"
	@bench/flink/setup_kafka.sh
	$(STEP) "build, and compare"
	$(CARGO) bench --locked -p staunch-kafka-bench -- $(COMPARE_KAFKA)

soak: ## real processes at Kafka brokers, killed for an hour (SOAK_SECONDS), and on files for half as long
	@scripts/install.sh kafka
	$(STEP) "kill loops on files, for half of $(SOAK_SECONDS) s"
	$(CARGO) run --release --locked -p staunch-e2e --bin soak -- --seconds $$(( $(SOAK_SECONDS) / 2 ))
	$(STEP) "kill loops at a cluster of Kafka brokers, for $(SOAK_SECONDS) s: 200 kills of the job and 20 of brokers in each"
	$(CARGO) run --release --locked -p staunch-kafka-e2e --bin kafka-soak -- --seconds $(SOAK_SECONDS) --kills 200 --broker-kills 20

fuzz: ## every property test with many more cases (FUZZ_CASES)
	@scripts/install.sh build
	$(STEP) "property tests, $(FUZZ_CASES) cases each"
	PROPTEST_CASES=$(FUZZ_CASES) $(CARGO) test --release --locked -p staunch-types -p staunch-protocol -p staunch-format -p staunch-engine -p staunch-files -p staunch-sim

docs: ## the reference pages, with every link checked
	@scripts/install.sh lint
	$(STEP) "links and tables of the pages"
	@$(CARGO) run --quiet --locked -p xtask -- tidy
	$(STEP) "reference"
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# The steps of `test` and `lint`.

fmt:
	$(STEP) "format"
	$(CARGO) fmt --all --check

tidy:
	$(STEP) "tidy"
	@$(CARGO) run --quiet --locked -p xtask -- tidy

clippy:
	$(STEP) "lints"
	$(CARGO) clippy --quiet --workspace --all-targets --locked -- -D warnings

test-all:
	$(STEP) "build and run all tests"
	$(CARGO) test --workspace --locked
