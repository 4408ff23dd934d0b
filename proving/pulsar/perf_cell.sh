# pulsar-perf as load: as fast as it is told, and faster than the gate lets it.
# shellcheck shell=bash
source ../facts.sh
sed 's/=warn$/=info/' "$PROVE_RUN/log4j2.properties" >"$PROVE_RUN/perf.properties"
: >"$PROVE_RUN/perf.conf"
# perf TOPIC RATE SECONDS publishes, and tells with how many messages a second.
perf() {
  "${tool[@]}" org.apache.pulsar.testclient.PulsarPerfTestTool "$PROVE_RUN/perf.conf" produce -u "$GATE_URL" -r "$2" -time "$3" -s 100 -b 5 -bm 10 \
    --auth-plugin org.apache.pulsar.client.impl.auth.AuthenticationToken --auth-params "token:$TOKEN" "persistent://public/default/$1" >"$PROVE_RUN/perf.out" 2>&1
  sed -n 's/.*Aggregated throughput stats --- *\([0-9]*\) records sent --- *\([0-9]*\).*/\1 \2/p' "$PROVE_RUN/perf.out" | tail -n 1
}
tool=("$@" "-Dlog4j2.configurationFile=$PROVE_RUN/perf.properties")
read -r sent rate < <(perf perf-open 2000 6)
fact "2000 messages a second for 6 s, in batches: ${sent:-none} are published" "$((${sent:-0} > 10000))" 1
tail -n 2 "$PROVE_RUN/perf.out" | cut -c1-300
read -r sent rate < <(perf slow-perf 1000 6)
fact "1000 a second to a topic of 40: ${rate:-none} a second are published" "$((${sent:-0} > 100 && ${rate:-0} < 60))" 1
tail -n 2 "$PROVE_RUN/perf.out" | cut -c1-300
exit $failed
