# What the cells before had compressed, as the far side of the gate has counted it.
# shellcheck shell=bash
source ../facts.sh
counts=$(curl -sS "http://127.0.0.1:$COUNTS/")
echo "$counts"
while read -r driver how requests replies; do
  ((requests > 3 && replies > 3)) && echo "ok $driver: $requests requests and $replies replies in $how"
done < <(sed 's/|[^ ]*//; s/Compressor//' <<<"$counts")
for driver in mongo-go-driver nodejs PyMongo; do
  fact "$driver has compressed" "$counts" "*$driver*"
done
exit $failed
