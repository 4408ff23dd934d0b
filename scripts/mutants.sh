#!/usr/bin/env bash
# Applies the mutations of scripts/mutants.txt one by one, to a copy, and shows
# that each makes a test of its package fail. Takes some minutes.
#   scripts/mutants.sh             all
#   scripts/mutants.sh bucket.go   those whose first line has this text
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d /tmp/mutants-XXXXXX)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy" 2>/dev/null || true
caught=0 lived=0 stale=0

# try FILE NAME OLD NEW
try() {
  local file=$1 name=$2 old=$3 new=$4 text status=0
  text=$(cat "$file"; printf x)
  text=${text%x}
  local rest=${text#*"$old"}
  if [[ $rest == "$text" || ${rest#*"$old"} != "$rest" ]]; then
    echo "STALE   $file: $name (the text does not stand there once)"
    stale=$((stale + 1))
    return
  fi
  printf '%s' "${text/"$old"/"$new"}" >"$copy/$file"
  (cd "$copy" && go vet "./$(dirname "$file")" >/dev/null 2>"$copy/vet") || status=$?
  if ((status != 0)) && grep -q '^vet: \|cannot\|undefined\|declared and not used' "$copy/vet"; then
    echo "STALE   $file: $name (does not build: $(head -n 2 "$copy/vet" | tail -n 1))"
    stale=$((stale + 1))
  elif (cd "$copy" && go test -vet=off -short -failfast -timeout 150s "./$(dirname "$file")/...") >"$copy/out" 2>&1; then
    echo "LIVED   $file: $name"
    lived=$((lived + 1))
  else
    echo "caught  $file: $name ($(grep -m1 -oE '^ *--- FAIL: [^ ]+|^panic: .{0,60}|deadlock' "$copy/out" | sed 's/ *--- FAIL: //' || true))"
    caught=$((caught + 1))
  fi
  cp "$file" "$copy/$file"
}

only=${1:-}
file='' name='' old='' new=''
flush() {
  [[ -n $file ]] || return 0
  if [[ -z $only || "$file: $name" == *"$only"* ]]; then try "$file" "$name" "${old%$'\n'}" "${new%$'\n'}"; fi
  file='' name='' old='' new=''
}
while IFS= read -r line || [[ -n $line ]]; do
  case $line in
    '#'*) ;;
    '') flush ;;
    -*) old+=${line:1}$'\n' ;;
    +*) new+=${line:1}$'\n' ;;
    *) file=${line%%: *} name=${line#*: } ;;
  esac
done <scripts/mutants.txt
flush
echo "$caught caught, $lived lived, $stale stale"
((lived == 0 && stale == 0))
