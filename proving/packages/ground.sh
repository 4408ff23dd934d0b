#!/usr/bin/env bash
# limits: fetch 600 s, prove 900 s
# What `make packages` ships, built twice and installed: scripts/packages-test.sh
# says so fact by fact. CLEAN=1 compiles anew for the second time.
source "$PROVE_LIB"

fetch() { (cd ../.. && OUT=$PROVE_RUN/packages scripts/packages.sh >&2); }

prove() { PROVE_CELL_S=800 cell all "$(../../scripts/version.sh)" ../../scripts/packages-test.sh; }
main "$@"
