#!/usr/bin/env bash
# Brings what the last runs showed (bin/proving/*.tsv) into the table of
# docs/proving.md. Rows of cells that did not run stay as they are; one that was
# skipped, or whose ground was, says so and why.
set -euo pipefail
cd "$(dirname "$0")/.."
doc=docs/proving.md
shopt -s nullglob
rows=(bin/proving/*.tsv)
((${#rows[@]})) || { echo "prove-table: nothing was proven here yet" >&2; exit 1; }
awk -F '\t' -v doc="$doc" '
  { key = $1 ($2 == "" ? "" : "-" $2); ran[$1]; gsub(/\|/, "\\|", $4); gsub(/\|/, "\\|", $6)
    if ($3 == "") why[key] = $6 " on " $5 # a cell or a ground that was not run, or not to its end
    row[key] = sprintf("| %s | %s | %s | %s | %s |", key, $3, $4, $5, $6) }
  # older ROW CELLS: what becomes of a row that is there already.
  function older(line, cells,   key, ground) {
    key = ground = cells[2]
    sub(/-.*/, "", ground)
    if (cells[3] == "" && ground in ran) return # why it was not run then
    if (key in why && cells[3] != "") {
      sub(/; skipped.*/, "", cells[6])
      row[key] = sprintf("| %s | %s | %s | %s | %s; %s |", key, cells[3], cells[4], cells[5], cells[6], why[key])
    }
    if (!(key in row)) row[key] = line
  }
  END {
    while ((getline line < doc) > 0) {
      if (line ~ /^<!-- table/) inside = 1
      else if (line ~ /^<!-- end/) {
        n = asort_keys()
        for (i = 1; i <= n; i++) print row[keys[i]]
        inside = 0
      } else if (inside && line ~ /^\| [a-z]/) {
        split(line, cells, " *[|] *")
        if (cells[2] != "ground") { older(line, cells); continue }
      }
      print line
    }
  }
  function asort_keys(   k, i, j, n, t) {
    n = 0
    for (k in row) keys[++n] = k
    for (i = 2; i <= n; i++) for (j = i; j > 1 && keys[j - 1] > keys[j]; j--) { t = keys[j]; keys[j] = keys[j - 1]; keys[j - 1] = t }
    return n
  }
' "${rows[@]}" >"$doc.new"
mv "$doc.new" "$doc"
