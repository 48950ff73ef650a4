# Targets for people; what they do is in scripts/. A line "name: ## text" is listed by `make` alone.
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## install what is missing, build everything, boot a demo workspace and open a shell in it
	@scripts/run

.PHONY: test
test: ## every check: format, vet, darwin, unit tests, fuzzers, and end to end on a real guest
	@scripts/test

.PHONY: unit
unit: ## only the checks that boot nothing (a minute or two)
	@scripts/test --unit

.PHONY: e2e
e2e: ## only the tests on real guests; RUN=TestName picks some
	@scripts/test --e2e '$(RUN)'

.PHONY: build
build: ## build bin/bromure-tui and bin/bromure-cli, with the guest program inside
	@scripts/build

.PHONY: bench
bench: ## measure start, exec, clones, network and memory, each beside its reference
	@scripts/bench

.PHONY: bootstrap
bootstrap: ## install what the host lacks, through its package manager
	@scripts/bootstrap

.PHONY: licenses
licenses: ## write THIRD_PARTY_LICENSES anew from the modules that are linked in
	@go run ./tools/licenses -write

.PHONY: clean
clean: ## remove what was built and the cached test image (never a workspace)
	rm -rf bin .cache vm/guestbin/bin/bromure-guest-*
