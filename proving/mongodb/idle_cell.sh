# What is left when everybody is gone, and what the gate took the drivers for.
# shellcheck shell=bash
source ../facts.sh
for ((i = 0; i < 600; i++)); do
  held=$(curl -sS "$ADMIN/metrics" | awk '/^admitd_requests_in_flight\{/ {n += $2} END {print n + 0}')
  [[ $held == 0 ]] && break
  sleep 0.1
done
fact "no permit is held at the end" "$held" 0
exit $failed
