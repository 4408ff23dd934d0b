# The official suite for HTTP/2, against the gate and against net/http directly:
# no test that passes there may fail here.
# shellcheck shell=bash
source ../facts.sh
failing() { "$H2SPEC" -h 127.0.0.1 -p "$1" -o 2 "${@:2}" 2>&1 | tee "$PROVE_RUN/h2spec-$1" | sed -n 's/^ *× *\([0-9]*: .*\)/\1/p' | sort -u; }

for how in "with TLS:$GATE_TLS:$REFERENCE_TLS:-t -k" "without TLS:$GATE:$REFERENCE:"; do
  IFS=: read -r what gate reference flags <<<"$how"
  # shellcheck disable=SC2086
  more=$(comm -23 <(failing "$gate" $flags) <(failing "$reference" $flags))
  summary=$(grep -oE '[0-9]+ tests, [0-9]+ passed.*' "$PROVE_RUN/h2spec-$gate" | tail -n 1)
  fact "$what: ${summary:-no summary}; none fails that net/http passes" "$more${summary:+.}" "."
done
exit $failed
