#!/usr/bin/env bash
# Prints the software bill of materials of a binary, CycloneDX 1.6 JSON, from what
# the Go linker wrote into it: nothing is guessed from sources. The same binary has
# the same bill: neither time nor serial number is in it.
#
#   scripts/sbom.sh bin/admitd VERSION > sbom.cdx.json
set -euo pipefail
binary=$1 version=$2
go version -m "$binary" | awk -v version="$version" -v sha="$(sha256sum "$binary" | cut -d' ' -f1)" '
  function text(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); return "\"" s "\"" }
  function purl(path, v) { gsub(/\+/, "%2B", v); return "pkg:golang/" path "@" v }
  function library(path, v, sum,   hash) {
    hash = sum == "" ? "" : ", \"properties\": [{\"name\": \"go:sum\", \"value\": " text(sum) "}]"
    out[++n] = "    {\"type\": \"library\", \"bom-ref\": " text(purl(path, v)) ", \"name\": " text(path) ", \"version\": " text(v) ", \"purl\": " text(purl(path, v)) hash "}"
  }
  NR == 1 { toolchain = $NF }
  $1 == "mod" { main = $2 }
  $1 == "dep" { path = $2; v = $3; sum = $4; library(path, v, sum); next }
  $1 == "=>" { n--; library($2, $3, $4) }
  END {
    if (main == "" || n == 0) { print "sbom: the binary names no modules" > "/dev/stderr"; exit 1 }
    library("std", substr(toolchain, 3), "")
    print "{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.6\",\n  \"version\": 1,"
    print "  \"metadata\": {\"component\": {\"type\": \"application\", \"bom-ref\": " text(purl(main, version)) ", \"name\": \"admitd\", \"version\": " text(version) \
      ", \"purl\": " text(purl(main, version)) ", \"licenses\": [{\"license\": {\"id\": \"Apache-2.0\"}}], \"hashes\": [{\"alg\": \"SHA-256\", \"content\": " text(sha) "}]}},"
    print "  \"components\": ["
    for (i = 1; i <= n; i++) print out[i] (i < n ? "," : "")
    print "  ],\n  \"dependencies\": [{\"ref\": " text(purl(main, version)) ", \"dependsOn\": ["
    for (i = 1; i <= n; i++) { split(out[i], f, "\"bom-ref\": "); split(f[2], g, ", \"name\""); print "    " g[1] (i < n ? "," : "") }
    print "  ]}]\n}"
  }'
