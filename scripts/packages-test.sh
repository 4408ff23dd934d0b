#!/usr/bin/env bash
# Tests what `make packages` ships: builds it twice and compares the bytes, installs
# deb and rpm into throw-away roots and looks at what is there, reads the bill of
# materials and the notes, lints and renders the chart, checks its objects against
# their schemas and the configuration with `admitd check`.
#
# What a machine has not is one line, `SKIP …: reason`.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0 skipped=0
ok() { echo "ok $*"; }
not_ok() { echo "not ok $*" >&2; failed=1; }
skip() { echo "SKIP $*"; skipped=$((skipped + 1)); }
holds() { # what command…
  local what=$1
  shift
  if "$@" >"$work/out" 2>&1; then ok "$what"; else not_ok "$what: $(tail -n 3 "$work/out" | tr '\n' ' ')"; fi
}

OUT=$work/one scripts/packages.sh >/dev/null
one=$work/one
arch=$(go env GOARCH)

# Twice, from another directory, the second time without what the first compiled
# when CLEAN is set: minutes.
git worktree add -q --detach "$work/tree" HEAD
trap 'git worktree remove --force "$work/tree" 2>/dev/null || true; rm -rf "$work"' EXIT
if [[ -n $(git status --porcelain --untracked-files=no) ]]; then
  skip "reproducible: there are changes that are not committed"
else
  mkdir -p "$work/tree/bin"
  for tool in nfpm helm; do [[ -x bin/$tool ]] && cp "bin/$tool" "$work/tree/bin/"; done
  (
    cd "$work/tree"
    [[ -z ${CLEAN:-} ]] || export GOCACHE=$work/cache
    OUT=$work/two scripts/packages.sh >/dev/null
  )
  holds "the same commit gives the same program, packages, chart, bill and notes" diff "$one/SHA256SUMS" "$work/two/SHA256SUMS"
fi

program=$one/admitd-linux-$arch
holds "the program names its version" grep -q "^admitd 0\|^admitd [0-9]" <("$program" version)
deb=$(ls "$one"/*.deb) rpm=$(ls "$one"/*.rpm)

if command -v dpkg >/dev/null; then
  root=$work/deb
  mkdir -p "$root/var/lib/dpkg/"{info,updates} && touch "$root/var/lib/dpkg/"{status,available}
  install_deb() { dpkg --root="$root" --log=/dev/null --force-not-root --force-script-chrootless --force-architecture -i "$deb"; }
  holds "the deb installs in an empty root" install_deb
  for file in usr/bin/admitd usr/lib/systemd/system/admitd.service etc/admitd/admitd.yaml usr/share/man/man1/admitd.1.gz \
    usr/share/bash-completion/completions/admitd usr/share/zsh/vendor-completions/_admitd usr/share/fish/vendor_completions.d/admitd.fish usr/share/doc/admitd/copyright; do
    holds "deb: /$file" test -s "$root/$file"
  done
  holds "deb: the configuration holds" env ADMITD_ADMIN__TOKENFILE="$root/etc/admitd/token" "$root/usr/bin/admitd" check "$root/etc/admitd/admitd.yaml"
  holds "deb: a token is made, for root alone" test "$(stat -c '%a %s' "$root/etc/admitd/token")" = "600 64"
  token=$(cat "$root/etc/admitd/token")
  echo "# mine" >>"$root/etc/admitd/admitd.yaml"
  holds "deb: it installs again" install_deb
  holds "deb: a changed configuration and the token stay" grep -q "$token # mine" <(echo "$token $(tail -n 1 "$root/etc/admitd/admitd.yaml")")
  holds "deb: the unit runs what was installed" grep -q '^ExecStart=/usr/bin/admitd serve' "$root/usr/lib/systemd/system/admitd.service"
  if command -v systemd-analyze >/dev/null; then
    holds "the unit is understood by systemd" bash -c "systemd-analyze verify --man=no --root='$root' admitd.service 2>&1 | grep -v 'is not executable' | { ! grep -i 'unknown\|failed to parse'; }"
  else
    skip "the unit: systemd-analyze is not installed"
  fi
  if command -v man >/dev/null; then
    holds "the manual page is without fault" bash -c "man --warnings -l '$root/usr/share/man/man1/admitd.1.gz' 2>&1 >/dev/null | { ! grep .; }"
  fi
  holds "deb: it goes" dpkg --root="$root" --log=/dev/null --force-not-root --force-script-chrootless -r admitd
  holds "deb: its configuration is left" test -s "$root/etc/admitd/admitd.yaml"
else
  skip "deb: dpkg is not installed"
fi

if command -v rpm >/dev/null; then
  root=$work/rpm
  holds "the rpm installs in an empty root" rpm --root "$root" --dbpath /var/lib/rpm --nodeps --noscripts --ignorearch -i "$rpm"
  holds "rpm: the program runs" "$root/usr/bin/admitd" version
  holds "rpm: the configuration is config(noreplace)" grep -q '^/etc/admitd/admitd.yaml$' <(rpm -qp --configfiles "$rpm" 2>/dev/null)
  echo "# mine" >>"$root/etc/admitd/admitd.yaml"
  holds "rpm: it installs again" rpm --root "$root" --dbpath /var/lib/rpm --nodeps --noscripts --ignorearch -U --force "$rpm"
  holds "rpm: a changed configuration stays" grep -q '^# mine' "$root/etc/admitd/admitd.yaml"
  holds "rpm: what is installed is what was packed" bash -c "rpm --root '$root' --dbpath /var/lib/rpm -V --nodeps --noscripts admitd | { ! grep -v ' c /etc/admitd/admitd.yaml'; }"
else
  skip "rpm: rpm is not installed"
fi

if command -v python3 >/dev/null; then
  holds "the bill of materials is JSON and names the modules" python3 -c '
import json, sys
bill = json.load(open(sys.argv[1]))
names = {c["name"] for c in bill["components"]}
assert {"google.golang.org/grpc", "github.com/go-chi/chi/v5", "std"} <= names, names
assert all(c["version"] for c in bill["components"]) and len(names) == len(bill["dependencies"][0]["dependsOn"])' "$one/admitd-$arch.cdx.json"
fi
holds "the notes tell something" grep -q '^## ' "$one/release-notes.md"
holds "the notes of a version are those of its section" bash -c '
  printf "%s\n" "# C" "## Unreleased" "- [FEATURE] a: later." "## 1.2.0" "- [BUGFIX] b: then," "  and more." "- [CHANGE] c: act." "## 1.1.0" "- [FEATURE] d: before." >"$0/c.md"
  CHANGELOG=$0/c.md scripts/release-notes.sh 1.2.0 | diff - <(printf "%s\n" "# admitd 1.2.0" "" "## Changes to act upon" "" "- c: act." "" "## Mended" "" "- b: then," "  and more.")' "$work"
holds "versions come from tags" bash -c '
  cd "$0" && git init -q t && mkdir t/scripts && cp "$1/scripts/version.sh" t/scripts && cd t && git add . &&
  c() { git -c user.name=t -c user.email=t@t commit -q "$@"; } && c -m 1 && [[ $(scripts/version.sh) == 0.0.0-dev.1+* ]] &&
  git tag v1.2.3 && [[ $(scripts/version.sh) == 1.2.3 ]] && c --allow-empty -m 2 && [[ $(scripts/version.sh) == 1.2.4-dev.1+* ]]' "$work" "$PWD"

chart() {
  bin/helm template gate deploy/chart --namespace test --kube-version 1.31.0 --set image.tag=1.0.0 "$@" 2> >(grep -v 'symbolic link' >&2)
}
if [[ -x bin/helm ]]; then
  holds "helm lint" bin/helm lint --strict deploy/chart
  everything=(--set decisionsPort=9463 --set networkPolicy.enabled=true --set serviceMonitor.enabled=true --set prometheusRule.enabled=true
    --set service.type=LoadBalancer --set podLabels.team=a --set podAnnotations.x=y --set priorityClassName=high --set 'tolerations[0].key=k'
    --set 'networkPolicy.admin[0].podSelector.matchLabels.app=prometheus' --set 'networkPolicy.egress[0].ports[0].port=5432')
  chart >"$work/default.yaml"
  holds "the chart renders with everything on" bash -c "$(declare -f chart); chart \"\$@\" >'$work/all.yaml'" chart "${everything[@]}"
  holds "a mistyped value is refused" bash -c "$(declare -f chart); ! chart --set replica=3"
  awk '/^  admitd.yaml: \|/ {inside = 1; next} inside && /^---/ {exit} inside {print substr($0, 5)}' "$work/default.yaml" >"$work/admitd.yaml"
  echo token >"$work/token"
  holds "the configuration of the chart holds" env ADMITD_ADMIN__TOKENFILE="$work/token" "$program" check "$work/admitd.yaml"
  holds "drainDelay and drainTimeout fit into the grace period" bash -c "grep -q 'drainDelay: 10s' '$work/admitd.yaml' && grep -q 'terminationGracePeriodSeconds: 45' '$work/default.yaml'"
  if [[ -n ${KUBE_VALIDATE:-} ]] || { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check kubernetes-validate==1.37.0; } >/dev/null 2>&1; then
    validate=${KUBE_VALIDATE:-$work/venv/bin/kubernetes-validate}
    # What the Prometheus operator defines has no schema there.
    split() { awk -v out="$2" 'BEGIN {RS = "---\n"} /kind:/ && !/monitoring.coreos.com/ {printf "---\n%s", $0 > out}' "$1"; }
    for name in default all; do
      split "$work/$name.yaml" "$work/$name.objects.yaml"
      holds "objects of the chart ($name) fit their schemas" "$validate" --strict "$work/$name.objects.yaml"
    done
  else
    skip "schemas of Kubernetes: kubernetes-validate cannot be had"
  fi
else
  skip "chart: helm cannot be had"
fi

echo "packages-test: $([[ $failed == 0 ]] && echo passed || echo FAILED), $skipped skipped"
exit "$failed"
