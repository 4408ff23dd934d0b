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
flock -n 9 || echo "prove: waits for another run on this machine"
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
  : >"$PROVE_RUN/pids"
  rm -f "$PROVE_OUT/$ground".*.log "$PROVE_OUT/$ground.tsv"
  read -r fetch_s prove_s < <(limits "$ground")
  before=$(wc -l <"$tally")
  if [[ -n ${PROVE_BUDGET_S:-} ]]; then
    local left
    left=$(left "${prove_s:-300}")
    if ((left < 10)); then
      verdict SKIP "$ground" "no time left of $PROVE_BUDGET_S s"
      stop && return
    fi
    fetch_s=$((left < ${fetch_s:-300} ? left : ${fetch_s:-300}))
  fi
  phase "$ground" fetch "${fetch_s:-300}"
  status=$?
  case $status in
    0) ;;
    3) stop && return ;; # it has said so
    124 | 137) verdict SKIP "$ground" "fetching took longer than ${fetch_s:-300} s" ;;
    *) verdict SKIP "$ground" "cannot be fetched: $(reason)" ;;
  esac
  if ((status == 0)); then
    phase "$ground" prove "${prove_s:-300}"
    status=$?
    case $status in
      0 | 3) ;;
      124 | 137) verdict FAIL "$ground" "not done after ${prove_s:-300} s" ;;
      *) after "$before" | grep -q '^FAIL' || verdict FAIL "$ground" "ended with status $status: $(reason)" ;;
    esac
    after "$before" | grep -q . || verdict FAIL "$ground" "proved nothing"
  fi
  stop
}
# reason is the last thing that was said, before where in the scripts it was if something was.
reason() {
  sleep 0.1
  { grep -vE '^ *$|^[a-z]+\.sh line [0-9]+: ' "$PROVE_LOG" || grep . "$PROVE_LOG"; } | tail -n 1 | cut -c1-200
}

# verdict PASS|FAIL|SKIP GROUND WHY says what becomes of a whole ground, here and in the table of docs/proving.md.
verdict() {
  local -A result=([FAIL]=failed [SKIP]=skipped)
  echo "$1 $2: $3" | tee -a "$tally"
  printf '%s\t\t\t\t%s\t%s: %s\n' "$2" "$(date -u +%F)" "${result[$1]}" "$3" >>"$PROVE_OUT/$2.tsv"
}

# after N prints what was said after N lines.
after() { tail -n +$(($1 + 1)) "$tally"; }

# again GROUND N proves a ground once more that failed; foreign servers have bad moments of
# their own. What failed after line N and is not seen to pass now has failed, be it skipped.
again() {
  local ground=$1 said=$2 failures rows line name
  failures=$(after "$said" | grep '^FAIL ')
  rows=$(cat "$PROVE_OUT/$ground.tsv" 2>/dev/null)
  sed -i "$((said + 1)),\$d" "$tally"
  prove "$ground"
  while read -r line; do
    name=${line#FAIL } name=${name%%[ :]*}
    after "$said" | awk -v name="$name" -v ground="$ground" '
      { sub(/:$/, "", $2) }
      $2 == name && $1 != "SKIP" || name == ground && $1 == "PASS" { again = 1 }
      $1 == "SKIP" && $2 == ground { skipped = 1 }
      END { exit !again || skipped }' && continue
    echo "$line" | tee -a "$tally"
    awk -F '\t' -v cell="${name#"$ground"}" '"-" $2 == cell || $2 == "" && cell == ""' <<<"$rows" >>"$PROVE_OUT/$ground.tsv"
  done <<<"$failures"
}

# summary prints a line for each ground: what passed, and what was not run and why. A cell
# that docs/proving.md has and this run has not was not reached, or not asked for.
summary() {
  local known
  known=$(sed -n 's/^| \([a-z]*-[^ ]*\) | [^ |].*/KNOWN \1/p' "$root/docs/proving.md" 2>/dev/null)
  {
    for ground in "${all[@]}"; do echo "GROUND $ground ${took[$ground]:--} ${tries[$ground]:-0}"; done
    echo "$known"
    cat "$tally"
  } | awk '
    { ground = $2; sub(/[-:].*/, "", ground); name = $2; sub(/:$/, "", name) }
    $1 == "GROUND" { order[++n] = $2; took[$2] = $3; tries[$2] = $4; next }
    $1 == "KNOWN" { known[ground] = known[ground] " " name; next }
    { count[ground, $1]++; seen[name] = 1 }
    $1 == "SKIP" { why = $0; sub(/^SKIP /, "", why); not[ground] = not[ground] "; " why }
    END {
      printf "%-12s %6s %6s %7s %5s  %s\n", "ground", "passed", "failed", "skipped", "s", "not run"
      for (i = 1; i <= n; i++) {
        g = order[i]
        if (took[g] == "-") { others = others " " g; continue }
        missed = ""
        if (!(g in seen) || count[g, "FAIL"]) {
          c = split(known[g], cells, " ")
          for (j = 1; j <= c; j++) if (!(cells[j] in seen)) missed = missed " " cells[j]
        }
        if (missed != "") not[g] = not[g] "; not reached:" missed
        if (tries[g] > 1) not[g] = not[g] "; (proven " tries[g] " times)"
        printf "%-12s %6d %6d %7d %5d  %s\n", g, count[g, "PASS"], count[g, "FAIL"], count[g, "SKIP"], took[g], substr(not[g], 3)
      }
      if (others != "") print "not asked for:" others
    }'
}

mapfile -t all < <(cd "$here" && for g in */ground.sh; do dirname "$g"; done)
grounds=("${all[@]}")
if (($#)); then grounds=("$@"); fi
for ground in "${grounds[@]}"; do
  [[ -f $here/$ground/ground.sh ]] || { echo "prove: there is no ground $ground: ${all[*]}" >&2; exit 2; }
done
declare -A took=() tries=()
for ground in "${grounds[@]}"; do
  began=$SECONDS said=$(wc -l <"$tally") tries[$ground]=1
  prove "$ground"
  while ((tries[$ground] < ${PROVE_TRIES:-1})) && after "$said" | grep -q '^FAIL'; do
    read -r _ prove_s < <(limits "$ground")
    (($(left "${prove_s:-300}") >= 10)) || break
    tries[$ground]=$((tries[$ground] + 1))
    echo "     $ground failed, and is proven again"
    again "$ground" "$said"
  done
  took[$ground]=$((SECONDS - began))
  echo "     $ground took ${took[$ground]} s"
done
summary
count() { grep -c "^$1 " "$tally" || true; }
passed=$(count PASS) failed=$(count FAIL) skipped=$(count SKIP)
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0)) && { [[ -z ${PROVE_STRICT:-} ]] || ((skipped == 0)); }
