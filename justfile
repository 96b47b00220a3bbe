# The tasks of this repository: `just --list` shows them, `cargo install just` installs just.
# Each recipe is one or two plain commands, which work without just as well.

set shell := ["bash", "-euo", "pipefail", "-c"]

# List the recipes
default:
    @just --list

# Run many sessions on one echo process, and check their isolation
demo *ARGS:
    cargo run --release -p trunkline -- demo {{ ARGS }}

# Build the command line
build *ARGS:
    cargo build {{ ARGS }}

# Check formatting and lints
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Run every test, about 12 minutes on two cores, or those of `-p CRATE NAME`
test *ARGS:
    cargo test {{ if ARGS == "" { "--workspace" } else { ARGS } }}

# Do all that CI does for a push, or one part of it: checks, tests, suite
ci *PARTS:
    .ci/run {{ PARTS }}

# Do what takes longer: tests, flake, release, agents, packages, cluster, speed
long *PARTS:
    .ci/long {{ PARTS }}

# Repeat test binaries, alone and on a busy machine, to find tests that fail by chance
flake *ARGS:
    .ci/flake {{ ARGS }}

# Judge an adapter by the conformance suite: just judge python3 my_adapter.py
judge +ADAPTER:
    cargo run -p trunkline-conformance -- adapter -- {{ ADAPTER }}

# Rewrite the checked-in files that tests generate; then look at `git diff`
goldens:
    UPDATE_GOLDEN=1 cargo test -p trunkline-protocol
    UPDATE_GOLDEN=1 cargo test -p trunkline-profiles --lib
    UPDATE_GOLDEN=1 cargo test -p trunkline-host --lib schema
    UPDATE_GOLDEN=1 cargo test -p trunkline --test cli -- mistakes:: pages::

# Measure the host against its goals, all rows or some: just bench turns stream
bench *ROWS:
    cargo bench -p trunkline-host --bench goals {{ ROWS }}

# Check the links of the pages and build the documentation of the crates
docs:
    packaging/site --check
    RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps

# Measure the first hour of a new user, from a clone to an answer
first-run *ARGS:
    .ci/first-run {{ ARGS }}

# Measure size, wording and names against their ceilings
house *ARGS:
    .ci/measure {{ ARGS }}
