#!/usr/bin/env bash
# Runs `go test` with its usual lines, and appends the tests that were skipped,
# each with its reason, to the file $ADMITD_SKIPPED; without that it only runs.
#
#   scripts/go-test.sh go test ./...
set -euo pipefail

[[ -n ${ADMITD_SKIPPED:-} ]] || exec "$@"

# -v makes skips visible; what it adds is taken out again unless a test failed.
"$1" "$2" -v "${@:3}" 2>&1 | awk -v skipped="$ADMITD_SKIPPED" '
  # A package runs its tests one after another: the line before "--- SKIP" is the reason.
  /^=== (RUN|PAUSE|CONT|NAME)/ { next }
  /^ *--- SKIP: / { name = $3; print name ": " why >> skipped; why = ""; next }
  /^ *--- PASS: / { held = ""; why = ""; next }
  /^ *--- FAIL: / { printf "%s", held; held = ""; print; next }
  /^(ok|FAIL|panic:|---|\?|PASS$|exit status|#)/ { if ($0 != "PASS") { if ($0 !~ /^ok|^\?/) printf "%s", held; print } held = ""; next }
  { held = held $0 "\n"; line = $0; sub(/^ +[^ ]+\.go:[0-9]+: /, "", line); why = line }
  END { printf "%s", held }
'
