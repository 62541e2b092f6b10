#!/usr/bin/env bash
# One whole session, told in plain words: a project with history, an agent in the sandbox, what it
# changed, what it was refused, and the landing. Nothing outside a temporary directory is changed.
#
#   tests/demo/demo.sh PATH-TO-AEGIS-OS
set -euo pipefail

readonly demo_user=aegis-test

main() {
  local binary here
  binary=$(realpath "$1")
  here=$(realpath "$(dirname "$0")")
  if [ "$(id -u)" = 0 ]; then
    as_ordinary_user "$binary" "$here"
  else
    in_a_home_of_its_own "$binary" "$here"
  fi
}

# Aegis OS is for ordinary users. What root built may lie where nobody else can read it.
as_ordinary_user() {
  local shared
  shared=$(mktemp -d /tmp/aegis-demo.XXXXXX)
  # shellcheck disable=SC2064 # the directory as it is now
  trap "rm -rf '$shared'" EXIT
  cp "$1" "$2/demo.sh" "$2/agent.sh" "$shared/"
  chmod -R a+rX "$shared"
  note "You are root; the demo goes on as the ordinary user $demo_user."
  cd /
  setpriv --reuid="$demo_user" --regid="$demo_user" --init-groups --inh-caps=-all -- \
    env -i HOME="$(getent passwd "$demo_user" | cut -d: -f6)" USER="$demo_user" \
    PATH="$PATH" LANG=C.UTF-8 TERM="${TERM:-dumb}" \
    bash "$shared/demo.sh" "$shared/$(basename "$1")"
}

in_a_home_of_its_own() {
  local work
  work=$(mktemp -d "$HOME/aegis-demo.XXXXXX")
  # shellcheck disable=SC2064 # the directory as it is now
  trap "rm -rf '$work'" EXIT
  export HOME=$work/home AEGIS_HOME=$work/home/.aegis PATH=/usr/local/bin:/usr/bin:/bin
  mkdir -p "$HOME/.ssh" "$HOME/src"
  echo "the private key of a person" >"$HOME/.ssh/id_ed25519"
  echo "# the shell's start file of a person" >"$HOME/.bashrc"
  tell "$1" "$2"
}

tell() {
  local aegis_os=$1 agent=$2/agent.sh

  title "1. A project with history, as a person has it"
  make_project "$HOME/src/greeter"
  show git log --oneline
  show ls

  title "2. An agent works on it inside the sandbox"
  note "The agent is a shell script; Claude Code or Codex would be started the same way."
  show "$aegis_os" run --name demo --ro "$agent" -- bash "$agent"

  title "3. Nothing has reached the project yet"
  show git status --short --branch
  note "The person's home is untouched as well: $(cat "$HOME/.bashrc")"

  title "4. What it changed"
  show "$aegis_os" diff --stat
  show "$aegis_os" diff greet.c words.h

  title "5. What is on record (refusals only; 'aegis-os audit' shows everything)"
  "$aegis_os" audit | grep -E ' (deny|ask) ' | head -n 12

  title "6. The work lands"
  show "$aegis_os" land --yes
  show git log --oneline
  show git status --short --branch
  show make -s
  show ./greet world
  note "That was all. 'aegis-os undo' would take the landing back. The demo removes its directory."
}

make_project() {
  mkdir -p "$1"
  cd "$1"
  cat >greet.c <<'END'
#include <stdio.h>

int main(int count, char **words) {
    printf("hello %s\n", count > 1 ? words[1] : "nobody");
    return 0;
}
END
  printf 'greet: greet.c\n\tcc -o $@ greet.c\n' >Makefile
  printf 'greet\n' >.gitignore
  printf 'A program that greets.\n' >README
  printf 'remove me some day\n' >OLD-NOTES
  git init -q -b main
  git config user.name "A Person"
  git config user.email person@example.org
  git add -A
  git commit -q -m "A program that greets"
}

title() { printf '\n=== %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
show() {
  printf '\n  $ %s\n' "$(sed -E 's#/[^ ]*/(aegis-os|agent\.sh)#\1#g' <<<"$*")"
  "$@" 2>&1 | sed 's/^/    /'
}

main "$@"
