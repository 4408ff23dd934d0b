#!/usr/bin/env bash
# Ends `make test`: one line that says how many tests were skipped, and why.
set -euo pipefail

file=${1:?usage: scripts/skipped.sh FILE}
if [[ ! -s $file ]]; then
  echo "tests skipped: 0"
  exit 0
fi
why=$(sed 's/^[^:]*: //' "$file" | cut -c1-100 | sort | uniq -c | sort -rn | awk '{ n = $1; $1 = ""; printf "%s%d ×%s", sep, n, $0; sep = "; " }')
echo "tests skipped: $(wc -l < "$file") ($why)"
