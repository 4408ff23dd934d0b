# What is left when everybody is gone, and whether anybody went around the gate.
# shellcheck shell=bash
source ../facts.sh
sum() { curl -sS "$GATE_ADMIN/metrics" | awk -v name="$1" 'index($1, name "{") == 1 {n += $2} END {print n + 0}'; }
for ((i = 0; i < 100; i++)); do
  held=$(sum admitd_requests_in_flight) frames=$(sum admitd_pulsar_held_frames) producers=$(sum admitd_pulsar_producers)
  [[ $held$frames$producers == 000 ]] && break
  sleep 0.1
done
fact "no permit, no held frame and no producer is left" "$held $frames $producers" "0 0 0"
# Everything that the cells published through the gate was counted there.
fact "clients stayed on the gate: it has seen more than $1 frames" "$(($(sum admitd_requests_admitted_total) > $1))" 1
exit $failed
