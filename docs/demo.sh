#!/bin/sh
# The first minute, offline: a refund that needs a person's approval, in a folder that is gone afterwards.
# Started by `make demo`, which puts loopengine on PATH.
set -eu

for name in $(env | sed -nE 's/^((LOOPENGINE|RQ)_[A-Z_]*|REDIS_URL)=.*/\1/p'); do
  [ "$name" = LOOPENGINE_DEMO_AGENTS ] || unset "$name"
done
export LOOPENGINE_AGENTS_DIR="$LOOPENGINE_DEMO_AGENTS"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
cd "$folder"

show() {
  printf '\n$ %s\n' "$*"
}

message="order A-1001 arrived broken, can you refund it?"
show loopengine run customer-service "\"$message\""
code=0
loopengine run customer-service "$message" </dev/null || code=$?
if [ "$code" -ne 3 ]; then
  echo "the demo should have stopped for an approval (exit code 3), but got exit code $code" >&2
  exit 1
fi

printf '\n(exit code 3: the turn waits for a person. Nothing runs now; it could be approved tomorrow.)\n'
show loopengine approvals list
loopengine approvals list
approval=$(loopengine approvals list | cut -d ' ' -f 1)
show loopengine approvals approve "$approval"
loopengine approvals approve "$approval"
