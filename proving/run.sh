#!/usr/bin/env bash
# Proves the gates on real servers with foreign clients, one ground after another.
#
#   proving/run.sh              every ground (make prove)
#   proving/run.sh pulsar http  these only   (make prove GROUND="pulsar http")
#
# A ground is a directory here with a ground.sh; README.md says what that holds.
# What cannot be had is one line, `SKIP name: why`, and no failure, unless
# PROVE_STRICT=1. With PROVE_TRIES=2 a ground that failed is proven once more. The
# last line counts. Downloads stay in PROVE_CACHE, results and logs in bin/proving.
# PROVE_BUDGET_S bounds the whole run in seconds: what there is no time left for is
# skipped too, and what failed is not tried again.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
export PROVE_LIB=$here/lib.sh
export PROVE_ADMITD=${PROVE_ADMITD:-$root/bin/admitd}
export PROVE_CACHE=${PROVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/admitd-proving}
export PROVE_OUT=$root/bin/proving
mkdir -p "$PROVE_CACHE" "$PROVE_OUT"
tally=$PROVE_OUT/lines
# Kept by hand, so that the debris of a ground cannot stand in a later one's way.
PROVE_RUN=

# Two runs on one machine would fight for the processors and for the cache.
exec 9>"$PROVE_CACHE/lock"
flock -w "${PROVE_WAIT_S:-600}" 9 || { echo "prove: another run holds $PROVE_CACHE/lock" >&2; exit 2; }
: >"$tally"

# stop ends what the ground has started, by process id, children included.
stop() {
  [[ -n $PROVE_RUN ]] || return 0
  local pids=() pid since
  # A process id that was given to somebody else meanwhile is none of ours.
  [[ -s $PROVE_RUN/pids ]] && while read -r pid since; do
    [[ -e /proc/$pid && $(cut -d ' ' -f 22 "/proc/$pid/stat" 2>/dev/null) != "$since" ]] || pids+=("$pid")
  done <"$PROVE_RUN/pids"
  for pid in "${pids[@]}"; do kill -CONT -- "-$pid" 2>/dev/null; kill -TERM -- "-$pid" 2>/dev/null; done
  for ((i = 0; i < 50; i++)); do
    local left=0
    for pid in "${pids[@]}"; do kill -0 -- "-$pid" 2>/dev/null && left=1; done
    ((left)) || break
    sleep 0.1
  done
  for pid in "${pids[@]}"; do kill -KILL -- "-$pid" 2>/dev/null; done
  rm -rf "$PROVE_RUN"
  PROVE_RUN=
}
trap stop EXIT
trap 'exit 130' INT TERM

# phase GROUND NAME SECONDS runs a function of the ground's script, within a
# limit. Its verdicts go to the terminal as they come, the rest to its log.
phase() {
  (cd "$here/$1" && exec timeout --kill-after=10 "$3" bash ./ground.sh "$2") \
    2> >(exec 9>&-; exec tee -a "$PROVE_LOG" >"$PROVE_RUN/stderr") 9>&- < /dev/null |
    tee -a "$PROVE_LOG" | grep --line-buffered -E '^(PASS|FAIL|SKIP) ' | tee -a "$tally"
  return "${PIPESTATUS[0]}"
}

# limits GROUND prints how many seconds it has for fetching and for proving.
limits() { sed -n 's/^# limits: fetch \([0-9]*\) s, prove \([0-9]*\) s$/\1 \2/p' "$here/$1/ground.sh"; }

# left SECONDS prints how many are left of the budget besides so many.
left() { echo $((${PROVE_BUDGET_S:-1000000} - SECONDS - $1)); }

# prove GROUND: what cannot be fetched is skipped, what does not hold fails.
prove() {
  local ground=$1 fetch_s prove_s status before
  export PROVE_GROUND=$ground PROVE_LOG=$PROVE_OUT/$ground.log
  PROVE_RUN=$(mktemp -d "/tmp/prove-$ground-XXXXXX")
  export PROVE_RUN
  chmod 755 "$PROVE_RUN"
  : >"$PROVE_LOG"
  rm -f "$PROVE_OUT/$ground".*.log "$PROVE_OUT/$ground.tsv"
  read -r fetch_s prove_s < <(limits "$ground")
  before=$(wc -l <"$tally")
  if [[ -n ${PROVE_BUDGET_S:-} ]]; then
    local left
    left=$(left "${prove_s:-300}")
    if ((left < 10)); then
      echo "SKIP $ground: no time left of $PROVE_BUDGET_S s" | tee -a "$tally"
      stop && return
    fi
    fetch_s=$((left < ${fetch_s:-300} ? left : ${fetch_s:-300}))
  fi
  phase "$ground" fetch "${fetch_s:-300}"
  status=$?
  case $status in
    0) ;;
    3) stop && return ;; # it has said so
    124 | 137) echo "SKIP $ground: fetching took longer than ${fetch_s:-300} s" | tee -a "$tally" ;;
    *) echo "SKIP $ground: cannot be fetched: $(reason)" | tee -a "$tally" ;;
  esac
  if ((status == 0)); then
    phase "$ground" prove "${prove_s:-300}"
    status=$?
    case $status in
      0 | 3) ;;
      124 | 137) echo "FAIL $ground: not done after ${prove_s:-300} s" | tee -a "$tally" ;;
      *) tail -n +$((before + 1)) "$tally" | grep -q '^FAIL' ||
        echo "FAIL $ground: ended with status $status: $(reason)" | tee -a "$tally" ;;
    esac
    tail -n +$((before + 1)) "$tally" | grep -q . || echo "FAIL $ground: proved nothing" | tee -a "$tally"
  fi
  stop
}
# reason is the last thing that was said.
reason() { sleep 0.1; grep -v '^ *$' "$PROVE_LOG" | tail -n 1 | cut -c1-200; }

if (($#)); then grounds=("$@"); else
  mapfile -t grounds < <(cd "$here" && for g in */ground.sh; do dirname "$g"; done)
fi
for ground in "${grounds[@]}"; do
  [[ -f $here/$ground/ground.sh ]] || { echo "prove: there is no ground $ground: $(cd "$here" && echo */ground.sh | sed 's|/ground.sh||g')" >&2; exit 2; }
done
for ground in "${grounds[@]}"; do
  began=$SECONDS said=$(wc -l <"$tally")
  prove "$ground"
  for ((try = 2; try <= ${PROVE_TRIES:-1}; try++)); do # foreign servers have bad moments of their own
    tail -n +$((said + 1)) "$tally" | grep -q '^FAIL' || break
    read -r _ prove_s < <(limits "$ground")
    (($(left "${prove_s:-300}") >= 10)) || break
    echo "     $ground failed, and is proven again"
    sed -i "$((said + 1)),\$d" "$tally"
    prove "$ground"
  done
  echo "     $ground took $((SECONDS - began)) s"
done
count() { grep -c "^$1 " "$tally" || true; }
passed=$(count PASS) failed=$(count FAIL) skipped=$(count SKIP)
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0)) && { [[ -z ${PROVE_STRICT:-} ]] || ((skipped == 0)); }
