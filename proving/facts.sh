# How a shell cell tells its facts.
# shellcheck shell=bash
failed=0
# fact WHAT SEEN WANTED: WANTED is a pattern.
fact() {
  # shellcheck disable=SC2053
  if [[ $2 == $3 ]]; then echo "ok $1"; else echo "not ok $1 - saw $2, want $3"; failed=1; fi
}
