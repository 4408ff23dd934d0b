#!/usr/bin/env bash
# Prints the version of this tree as SemVer: of the tag v1.2.3 on this commit
# 1.2.3, and behind one, or without any, a version that sorts before the next:
# 1.2.4-dev.17+abc123, 0.0.0-dev.503+abc123.
set -euo pipefail
cd "$(dirname "$0")/.."
sha=$(git rev-parse --short=12 HEAD)
dirty=""
[[ -z $(git status --porcelain --untracked-files=no) ]] || dirty=.dirty
if tag=$(git describe --tags --match 'v[0-9]*.[0-9]*.[0-9]*' --abbrev=0 2>/dev/null); then
  n=$(git rev-list --count "$tag..HEAD")
  version=${tag#v}
  if [[ $n == 0 && -z $dirty ]]; then
    echo "$version"
    exit
  fi
  base=${version%%[-+]*}
  [[ $version == "$base" ]] && base=${base%.*}.$((${base##*.} + 1)) # of a release, the next patch
  echo "$base-dev.$n+$sha$dirty"
else
  echo "0.0.0-dev.$(git rev-list --count HEAD)+$sha$dirty"
fi
