# mongosh, as a person types into it.
# shellcheck shell=bash
source ../facts.sh
# A home of its own: it keeps its history and logs there. It asks nobody for updates.
HOME=$(mktemp -d "$PROVE_RUN/home-XXXXXX")
export HOME
mkdir -p "$HOME/.mongodb/mongosh"
echo '{ "enableTelemetry": false, "updateURL": "" }' >"$HOME/.mongodb/mongosh/config"
mongosh=("$(realpath "$1")" --quiet --norc)

# types URI LINE… types lines, and prints what the shell says.
types() {
  local uri=$1
  shift
  printf '%s\n' "$@" exit | "${mongosh[@]}" "$uri" 2>&1
}

said=$(types "$GATE" 'use shell' 'db.things.drop()' \
  'db.things.insertMany([...Array(45).keys()].map((n) => ({ _id: n })))' \
  'print("count", db.things.countDocuments())' \
  'db.things.find().sort({ _id: 1 })' 'it' 'it' 'it' \
  'print("servers", db.hello().hosts.join(), db.hello().me)' \
  's = db.getMongo().startSession(); s.startTransaction(); s.getDatabase("shell").things.insertOne({ _id: "committed" }); s.commitTransaction(); s.endSession()' \
  'print("committed", db.things.countDocuments({ _id: "committed" }))' \
  'print("sum", db.things.aggregate([{ $match: { _id: { $lt: 45 } } }, { $group: { _id: null, n: { $sum: "$_id" } } }]).next().n)')
echo "$said"
fact "login with SCRAM, and 45 documents in" "$said" "*count 45*"
fact "find shows twenty, \`it\` the next, and the last five" \
  "$(grep -o "{ _id: [0-9]* }" <<<"$said" | wc -l) $(grep -c 'Type "it" for more' <<<"$said") $(grep -ci 'no cursor' <<<"$said")" "45 2 1"
fact "hello names the gate" "$said" "*servers 127.0.0.1:$GATE_PORT 127.0.0.1:$GATE_PORT*"
fact "a transaction" "$said" "*committed 1*"
fact "an aggregation" "$said" "*sum 990*"

said=$(types "$GATE" 'use spent' 'db.things.find()' 'db.things.insertOne({ from: "shell" })' \
  'try { db.things.findOne() } catch (e) { print("caught", e.code, e.codeName, e.errorLabels.sort().join()) }' \
  'print("alive", db.getSiblingDB("shell").things.countDocuments({ _id: 1 }))')
echo "$said"
fact "a refused read and a refused write are shown as errors" "$(grep -c "MongoServerError.*Rate limiter 'ingressRequestRateLimiter' rate exceeded" <<<"$said")" 2
fact "with code 462, its name and both labels" "$said" "*caught 462 IngressRequestRateLimitExceeded NoWritesPerformed,RetryableError,SystemOverloadedError*"
fact "and the shell goes on" "$said" "*alive 1*"
fact "a wrong password is the server's answer" "$(types "$WRONG" 'db.things.findOne()')" "*MongoServerError*uthentication*"
fact "over TLS to the gate" "$(types "$TLS" 'print("tls", db.getSiblingDB("shell").things.countDocuments({ _id: 1 }))')" "*tls 1*"
fact "a script with --eval" "$("${mongosh[@]}" "$GATE" --eval 'db.getSiblingDB("shell").things.findOne({ _id: 7 })._id' 2>&1)" 7
exit $failed
