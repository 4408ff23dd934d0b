#!/usr/bin/env bash
# Measures the shape of the house: what CONTRIBUTING.md aims at. Prints a table
# in the form in which it stands there.
# usage: scripts/figures.sh
set -euo pipefail
cd "$(dirname "$0")/.."
exec go run ./internal/arch/figures
