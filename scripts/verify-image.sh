#!/usr/bin/env bash
# Builds the Dockerfile as it is and runs the image, on a machine that reaches
# no container registry: two local images stand in for the base images. This
# proves every step of the Dockerfile and that the binary runs static, as user
# 65532, with nothing else in the image. It does not prove the real bases.
#
# Needs root and the Debian packages buildah and busybox-static; says so and
# ends with status 0 where they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "verify-image: skipped: $*"; exit 0; }
command -v buildah >/dev/null || skip "buildah is not installed (apt-get install buildah busybox-static)"
busybox=$(command -v busybox) || skip "busybox is not installed (apt-get install busybox-static)"
[[ $(id -u) -eq 0 ]] || skip "needs root"

build_base=$(awk '/^FROM/ {print $2; exit}' Dockerfile)
final_base=$(awk '/^FROM/ {base = $2} END {print base}' Dockerfile)
image=localhost/admitd:verify

work=$(mktemp -d)
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
# A store of its own, so that the stand-ins never pass for the real images.
store=(--root "$work/store" --runroot "$work/run")
trap 'buildah "${store[@]}" rm -a >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

# The build image: a shell with the usual tools, and an empty /tmp.
mkdir -p "$work/build/bin" "$work/build/tmp" "$work/build/etc/ssl/certs"
chmod 1777 "$work/build/tmp"
cp "$busybox" "$work/build/bin/busybox"
for tool in sh mkdir cp rm ls cat; do ln -s busybox "$work/build/bin/$tool"; done
cp /etc/ssl/certs/ca-certificates.crt "$work/build/etc/ssl/certs/"
# The final image: a user and the CA bundle.
mkdir -p "$work/final/etc/ssl/certs"
echo 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' >"$work/final/etc/passwd"
cp /etc/ssl/certs/ca-certificates.crt "$work/final/etc/ssl/certs/"

stand_in() { # name directory [config option...]
  local name=$1 dir=$2 c
  shift 2
  c=$(buildah "${store[@]}" from scratch)
  buildah "${store[@]}" copy -q "$c" "$dir" / >/dev/null
  buildah "${store[@]}" config "$@" "$c"
  buildah "${store[@]}" commit -q "$c" "$name" >/dev/null
  buildah "${store[@]}" rm "$c" >/dev/null
}
goroot=$(go env GOROOT)
modcache=$(go env GOMODCACHE)
go mod download
mkdir -p "$work/gocache"
stand_in "$build_base" "$work/build" \
  --env PATH=/usr/local/go/bin:/bin --env GOTOOLCHAIN=local --env HOME=/tmp --env GOMODCACHE=/go/pkg/mod --env GOCACHE=/gocache
stand_in "$final_base" "$work/final" --user 65532

start=$SECONDS
buildah "${store[@]}" bud -q --pull-never -t "$image" \
  --build-arg VERSION=verify --build-arg COMMIT="$(git rev-parse --short HEAD)" \
  -v "$goroot:/usr/local/go:ro" -v "$modcache:/go/pkg/mod" -v "$work/gocache:/gocache" . >/dev/null
echo "verify-image: built in $((SECONDS - start)) s"

c=$(buildah "${store[@]}" from --pull-never "$image")
user=$(buildah "${store[@]}" inspect --format '{{.OCIv1.Config.User}}' "$c")
[[ $user == 65532:65532 ]] || { echo "verify-image: image runs as '$user', want 65532:65532" >&2; exit 1; }
root=$(buildah "${store[@]}" mount "$c")
echo "verify-image: binary $(stat -c %s "$root/usr/local/bin/admitd") bytes; files: $(find "$root" -type f | wc -l)"
out=$(buildah "${store[@]}" run "$c" -- /usr/local/bin/admitd version)
echo "verify-image: $out"
[[ $out == *verify* ]] || { echo "verify-image: version does not name the build" >&2; exit 1; }
buildah "${store[@]}" run "$c" -- /usr/local/bin/admitd schema >/dev/null
echo "verify-image: ok"
