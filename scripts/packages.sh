#!/usr/bin/env bash
# Builds what is shipped, for this architecture, into bin/packages: the program,
# deb and rpm, the chart, the bill of materials, the release notes, and sums. The
# same commit gives the same bytes: times are those of the commit.
#
# nfpm and helm are built once, by pinned version, into bin; without helm the chart
# is left out and that is said. ARCH=arm64 builds for another architecture.
set -euo pipefail
cd "$(dirname "$0")/.."
NFPM=v2.43.0 HELM=v3.19.0
export VERSION=${VERSION:-$(scripts/version.sh)} GOARCH=${ARCH:-$(go env GOARCH)} GOOS=linux
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
out=${OUT:-bin/packages}
export STAGE=$out/stage
rm -rf "$out" && mkdir -p "$STAGE/completions"

tool() { # name module version
  [[ -x bin/$1 ]] || GOOS='' GOARCH='' GOBIN=$PWD/bin go install "$2@$3"
}

echo "packages: admitd $VERSION, $GOARCH"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags grpcnotrace \
  -ldflags "-s -w -buildid= -X main.version=$VERSION -X main.commit=$(git rev-parse --short=12 HEAD)" -o "$STAGE/admitd" ./cmd/admitd
# What the program says of itself is asked of one that runs here.
self=$STAGE/admitd
if [[ $GOARCH != $(GOARCH='' go env GOARCH) ]]; then
  self=bin/admitd-self
  GOARCH='' CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags grpcnotrace -o "$self" ./cmd/admitd
fi
"$self" man | gzip -9n >"$STAGE/admitd.1.gz"
"$self" completion bash >"$STAGE/completions/admitd.bash"
"$self" completion zsh >"$STAGE/completions/_admitd"
"$self" completion fish >"$STAGE/completions/admitd.fish"
# Installed by a package the program is in /usr/bin; the unit in examples is for who
# installs by hand.
sed -e 's#/usr/local/bin/admitd#/usr/bin/admitd#; /^# Install as/,/^# admin token/d' examples/systemd/admitd.service >"$STAGE/admitd.service"
scripts/sbom.sh "$STAGE/admitd" "$VERSION" >"$STAGE/sbom.cdx.json"

tool nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm "$NFPM"
sed "s#\${STAGE}#$STAGE#g; s#\${VERSION}#$VERSION#g; s#\${GOARCH}#$GOARCH#g" deploy/packages/nfpm.yaml >"$STAGE/nfpm.yaml"
for kind in deb rpm; do
  bin/nfpm package --config "$STAGE/nfpm.yaml" --packager "$kind" --target "$out/" >"$STAGE/log" || { cat "$STAGE/log" >&2; exit 1; }
done
install -m 0755 "$STAGE/admitd" "$out/admitd-linux-$GOARCH"
cp "$STAGE/sbom.cdx.json" "$out/admitd-$GOARCH.cdx.json"
scripts/release-notes.sh "$VERSION" >"$out/release-notes.md"

if [[ -z ${NO_CHART:-} ]] && tool helm helm.sh/helm/v3/cmd/helm "$HELM"; then
  # Packed by helm, and once more without the time of it.
  bin/helm package deploy/chart --version "$VERSION" --app-version "$VERSION" --destination "$STAGE" >/dev/null 2>"$STAGE/log" || { cat "$STAGE/log" >&2; exit 1; }
  tar --warning=no-timestamp -xzf "$STAGE/admitd-$VERSION.tgz" -C "$STAGE" --one-top-level=chart
  tar -C "$STAGE/chart" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go+rX,u+rw,go-w -cf - admitd | gzip -9n >"$out/admitd-$VERSION.tgz"
else
  echo "packages: no helm: the chart is left out" >&2
fi
rm -rf "$STAGE"
(cd "$out" && sha256sum -- * >SHA256SUMS)
cat "$out/SHA256SUMS"
