# What the grounds share. A ground.sh sources it, defines fetch and prove, and
# ends with `main "$@"`.
#
# A cell is one client on one server: a program that prints `ok WHAT` for each
# fact that it has seen, `not ok WHAT` for each that it has not, and ends with 0
# when all were.
# shellcheck shell=bash
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]##*/} line $LINENO: $BASH_COMMAND" >&2' ERR

# facts.py, facts.js and facts.sh stand beside this file. What a run leaves goes to
# bin, not beside the sources.
PYTHONPATH=$(dirname "$PROVE_LIB")
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1

main() { "$1"; }

# skip NAME REASON reports what is not to be had.
skip() {
  echo "SKIP $1: $2"
  row "${1#"$PROVE_GROUND"-}" "" "" "skipped: $2"
}

# absent NAME REASON does so for the whole ground, and ends it.
absent() { skip "$1" "$2"; exit 3; }

# cell NAME VERSION COMMAND… runs one cell, within PROVE_CELL_S (120) seconds, and
# reports it. Facts go to the ground's results. PROVE_CELL="name name" runs only these.
cell() {
  local name=$1 version=$2 log began=$SECONDS status=0 facts
  shift 2
  [[ -z ${PROVE_CELL:-} || " $PROVE_CELL " == *" $name "* ]] || return 0
  log=$PROVE_OUT/$PROVE_GROUND.$name.log
  timeout --kill-after=5 "${PROVE_CELL_S:-120}" "$@" >"$log" 2>&1 </dev/null &
  local running=$!
  ours "$running"
  wait "$running" || status=$?
  theirs "$running"
  facts=$(sed -n 's/^ok //p' "$log" | awk '{printf "%s%s", sep, $0; sep = "; "}')
  if ((status == 3)) && grep -q '^skip ' "$log"; then
    skip "$PROVE_GROUND-$name" "$(sed -n 's/^skip //p' "$log" | head -n 1)"
    return 0
  fi
  if ((status == 0)) && [[ -n $facts ]] && ! grep -q '^not ok ' "$log"; then
    echo "PASS $PROVE_GROUND-$name $version: $(grep -c '^ok ' "$log") facts in $((SECONDS - began)) s"
    row "$name" "$version" "$facts" passed
    return 0
  fi
  ((status == 124 || status == 137)) && echo "not ok done within ${PROVE_CELL_S:-120} s" >>"$log"
  echo "FAIL $PROVE_GROUND-$name $version: $( (grep '^not ok ' "$log" || tail -n 1 "$log") | head -n 3 | tr '\n' ';' | cut -c1-300) (status $status; $log)"
  row "$name" "$version" "$facts" failed
}

# row keeps a line of the table: ground, cell, version, facts, date, result.
row() { printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$PROVE_GROUND" "$1" "$2" "$3" "$(date -u +%F)" "$4" >>"$PROVE_OUT/$PROVE_GROUND.tsv"; }

# start NAME COMMAND… starts a server in a process group of its own, which the
# runner stops. Its output is in PROVE_OUT; started holds its process id.
started=
start() {
  local name=$1
  shift
  setsid "$@" >"$PROVE_OUT/$PROVE_GROUND.$name.log" 2>&1 </dev/null &
  started=$!
  ours "$started"
}

# ours PID has the runner stop its process group, should the ground leave it behind.
# With when it began: by the end of the run its number may be somebody else's.
ours() {
  local since
  since=$(cut -d ' ' -f 22 "/proc/$1/stat" 2>/dev/null) || return 0 # ended already
  echo "$1 $since" >>"$PROVE_RUN/pids"
}

# theirs PID takes that back: it has ended.
theirs() { sed -i "/^$1 /d" "$PROVE_RUN/pids"; }

# halt PID stops one of them early.
halt() {
  kill -TERM -- "-$1" 2>/dev/null || true
  for ((i = 0; i < 100; i++)); do kill -0 -- "-$1" 2>/dev/null || break; sleep 0.1; done
  kill -KILL -- "-$1" 2>/dev/null || true
  theirs "$1"
}

# port prints a loopback port that nobody listens on, below the ephemeral ones.
port() {
  local p
  while :; do
    p=$((20000 + RANDOM % 12000))
    grep -qx "$p" "$PROVE_RUN/ports" 2>/dev/null && continue
    (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || { echo "$p" | tee -a "$PROVE_RUN/ports"; return; }
  done
}

# until_ok SECONDS COMMAND… tries until it succeeds.
until_ok() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# gate NAME [COMMAND…] starts admitd, by way of COMMAND, with the configuration on
# standard input, and waits until it is ready. The configuration needs
# `admin: { listen: ADDRESS:PORT }`.
gate() {
  local name=$1 file=$PROVE_RUN/$1.yaml admin
  shift
  cat >"$file"
  admin=$(sed -n 's/^admin: .*listen: \([0-9.]*:[0-9]*\).*/\1/p' "$file")
  "$PROVE_ADMITD" check "$file"
  start "$name" "$@" "$PROVE_ADMITD" serve --config "$file"
  until_ok 15 "$@" curl -fsS "http://$admin/readyz" || { tail -n 3 "$PROVE_OUT/$PROVE_GROUND.$name.log" >&2; return 1; }
}

# stored KIND FILES… prints a directory of the cache for what these manifests name.
stored() { echo "$PROVE_CACHE/$1-$(cat "${@:2}" | sha256sum | cut -c1-16)"; }

# python_env prints a directory with a virtual environment of requirements.txt.
python_env() {
  local dir
  dir=$(stored "python-$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" "${1:-requirements.txt}")
  if [[ ! -e $dir/.done ]]; then
    rm -rf "$dir"
    python3 -m venv "$dir" >&2
    "$dir/bin/pip" install -q --disable-pip-version-check --only-binary :all: -r "${1:-requirements.txt}" >&2 || return 1
    touch "$dir/.done"
  fi
  echo "$dir"
}

# node_modules prints a directory that holds the modules of package.json.
node_modules() {
  local dir
  dir=$(stored node package.json package-lock.json)
  if [[ ! -e $dir/.done ]]; then
    rm -rf "$dir" && mkdir -p "$dir"
    cp package.json package-lock.json "$dir"
    (cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
    touch "$dir/.done"
  fi
  echo "$dir/node_modules"
}

# jars prints a directory with everything that pom.xml names.
jars() {
  local dir pom=${1:-pom.xml}
  dir=$(stored jars "$pom")
  if [[ ! -e $dir/.done ]]; then
    rm -rf "$dir" && mkdir -p "$dir"
    mvn -q -B -Dstyle.color=never -f "$pom" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
      "-DoutputDirectory=$dir" -DincludeScope=runtime >&2 || return 1
    touch "$dir/.done"
  fi
  echo "$dir"
}

# java_version prints the major version of the Java on PATH, or 0.
java_version() { command -v java >/dev/null && java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1 || echo 0; }

# A client's JVM is small: it has two processors to share with everything else.
# shellcheck disable=SC2034
small_jvm=(java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m)
