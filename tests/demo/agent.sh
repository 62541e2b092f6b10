#!/usr/bin/env bash
# The scripted agent of the demo: it runs inside the sandbox, works, and tries what it may not do.
set -uo pipefail

say() { printf -- '- %s\n' "$*"; }

# Runs what has to be refused and says whether it was.
try() {
  local what=$1
  shift
  if "$@" >/dev/null 2>&1; then
    say "$what: DONE - this must not happen"
    exit 1
  fi
  say "$what: refused"
}

# Asks the proxy for a tunnel; succeeds when it is granted.
through_the_door() {
  local door=${HTTPS_PROXY#http://} answer
  door=${door%/}
  exec 3<>"/dev/tcp/${door%:*}/${door#*:}" || return 1
  printf 'CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n' "$1" "$1" >&3
  read -r answer <&3
  exec 3>&-
  [[ $answer == *" 200 "* ]]
}

say "I am in $PWD and read: $(head -n 1 README)"
sed -i 's/hello %s/%s, %s!/; s/count > 1/GREETING, count > 1/' greet.c
sed -i 's/#include <stdio.h>/&\n\n#include "words.h"/' greet.c
printf '#define GREETING "good morning"\n' >words.h
say "I edited greet.c and created words.h"
git mv README README.md && git rm -q OLD-NOTES
say "I renamed README and deleted OLD-NOTES"
make -s && say "I built it, and it says: $(./greet world)"
git add -A && git commit -q -m "Greet with a word of its own"
say "I committed: $(git log --oneline -1)"

say "Now what I may not do:"
try "read the private key of the person" cat ~/.ssh/id_ed25519
try "run a program whenever git commits" sh -c 'echo evil > .git/hooks/pre-commit'
try "make git run a program" git config core.fsmonitor ./evil
try "change the real project" sh -c 'echo evil >> /aegis/host/project/greet.c'
try "reach the network past the door" bash -c 'exec 3<>/dev/tcp/192.0.2.1/443'
try "reach a host through the door" through_the_door example.org:443
try "change the system" sh -c 'echo evil > /etc/profile.d/evil.sh'
echo "echo evil" >>~/.bashrc
say "write to ~/.bashrc: done, but this home is private and goes away with the session"
