#!/usr/bin/env bash
# Prints the release notes of a version from CHANGELOG.md: its section, or the
# unreleased one while it has none, by kind, what must be acted upon first.
#
#   scripts/release-notes.sh 1.2.3
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?usage: scripts/release-notes.sh VERSION}
changelog=${CHANGELOG:-CHANGELOG.md}
section=$version
grep -qE "^## \[?v?${version//./\\.}\]?([ :]|$)" "$changelog" || section=Unreleased
awk -v section="$section" -v version="$version" '
  /^## / { head = $2; gsub(/[\[\]:]/, "", head); sub(/^v/, "", head); inside = head == section; next }
  !inside { next }
  match($0, /^- \[[A-Z]+\] /) {
    kind = substr($0, 4, RLENGTH - 5)
    if (!(kind in title)) { print "release-notes: unknown kind: " $0 > "/dev/stderr"; bad = 1; exit }
    list[kind] = list[kind] "- " substr($0, RLENGTH + 1) "\n"
    n++
    next
  }
  n && /^  / { list[kind] = list[kind] $0 "\n"; next } # goes on
  NF { print "release-notes: not an entry: " $0 > "/dev/stderr"; bad = 1; exit }
  BEGIN {
    split("CHANGE FEATURE ENHANCEMENT BUGFIX", order)
    title["CHANGE"] = "Changes to act upon"; title["FEATURE"] = "New"; title["ENHANCEMENT"] = "Better"; title["BUGFIX"] = "Mended"
  }
  END {
    if (bad) exit 1
    if (!n) { print "release-notes: nothing is told of " section > "/dev/stderr"; exit 1 }
    print "# admitd " version
    for (i = 1; i <= 4; i++) if (list[order[i]] != "") printf "\n## %s\n\n%s", title[order[i]], list[order[i]]
  }' "$changelog"
