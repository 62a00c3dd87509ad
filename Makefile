# The commands of this house. `make run` is the first one, `make test` the second.
.DEFAULT_GOAL := help
# Where rustup puts cargo, also in a shell that was opened before it.
export PATH := $(HOME)/.cargo/bin:$(PATH)
.PHONY: help run test lint docs demo bench drill

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build and run the gateway, no configuration needed (ARGS='--config FILE' for one)
	@scripts/setup build
	cargo build --locked --profile quick -p mai-gateway
	target/quick/mai-gateway serve $(ARGS)

test: ## everything that must hold before a change lands; installs what it needs
	@scripts/setup test
	@scripts/test

lint: ## formatting, clippy, licences, house rules
	@scripts/setup lint
	@scripts/test lint

docs: ## write docs/reference anew from the code
	@scripts/setup build
	cargo run --locked -q -p xtask -- docs

demo: ## real models behind the gateway (ARGS='--help' for its flags)
	@scripts/setup build
	cargo build --locked --profile quick -p mai-gateway
	examples/demo/run --gateway target/quick/mai-gateway $(ARGS)

bench: ## measure the gateway beside nginx and a bare relay (ARGS='--quick', see bench/README.md)
	@scripts/setup bench
	cargo build --locked --release -p mai-gateway
	bench/run $(ARGS)

drill: ## play incidents against the gateway and judge its promises (ARGS='--only hung', see drill/README.md)
	@scripts/setup build
	cargo build --locked -p mai-gateway
	cargo build --locked -q -p drill
	target/debug/drill $(ARGS)
