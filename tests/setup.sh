#!/usr/bin/env bash
# Installs what is missing on a Debian or Ubuntu machine, says each thing it does, and does nothing
# where nothing is missing.
#
#   tests/setup.sh run      what `aegis-os` itself needs: bubblewrap, fuse3, git, a C linker
#   tests/setup.sh test     and what the tests need: a user to run as, tools to run, two real agents
#   tests/setup.sh bench    and the file systems to measure against
#
# Run it as root, or as a user who may use sudo. It asks nothing and reads no input.
set -euo pipefail

readonly test_user=aegis-test
readonly agents_dir=${AEGIS_TEST_AGENTS:-/var/cache/aegis-test-agents}
readonly claude_version=2.1.332
readonly codex_version=0.171.0

main() {
  case ${1:-run} in
    run) set_up_run ;;
    test) set_up_run; set_up_test ;;
    bench) set_up_run; set_up_bench ;;
    *) echo "usage: tests/setup.sh run|test|bench" >&2; exit 2 ;;
  esac
}

set_up_run() {
  need_package bwrap bubblewrap
  need_package fusermount3 fuse3
  need_package git git
  need_package cc gcc
  need_package setpriv util-linux
  need_header libc6-dev /usr/include/stdio.h
  install_missing
  if [ "$(id -u)" = 0 ]; then ensure_user; fi
  ensure_fuse_device
}

set_up_test() {
  need_package make make
  need_package sqlite3 sqlite3
  need_package python3 python3
  need_package node nodejs
  need_package npm npm
  need_package script bsdutils
  need_package mkfs.btrfs btrfs-progs
  need_package strace strace
  need_package mkfs.xfs xfsprogs
  install_missing
  ensure_agents
}

set_up_bench() {
  need_package make make
  need_package sqlite3 sqlite3
  need_package python3 python3
  need_package rg ripgrep
  need_package fuse-overlayfs fuse-overlayfs
  install_missing
}

say() { printf 'set-up: %s\n' "$*"; }

# Runs a command as root; where that is impossible, says what a person has to run.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo -n "$@" 2>/dev/null || sudo "$@"
  else
    say "this needs root and there is no sudo; run as root: $*" >&2
    exit 1
  fi
}

missing=()

need_package() {
  command -v "$1" >/dev/null || missing+=("$2")
}

need_header() {
  [ -e "$2" ] || missing+=("$1")
}

install_missing() {
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    say "these are missing and this is not a Debian or Ubuntu machine: ${missing[*]}" >&2
    exit 1
  fi
  say "installing with apt-get: ${missing[*]}"
  # A machine that never asked its mirror has no list yet, and an old list names files that are gone.
  if ! apt_install "${missing[@]}"; then
    as_root apt-get update -q
    apt_install "${missing[@]}"
  fi
  missing=()
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "$@" </dev/null
}

# Root runs the demo and the tests as an ordinary user, because that is what Aegis OS is for.
ensure_user() {
  if ! getent passwd "$test_user" >/dev/null; then
    say "adding the user $test_user (demo and tests run as an ordinary user, never as root)"
    useradd --create-home --shell /bin/bash "$test_user"
  fi
}

ensure_fuse_device() {
  if [ ! -e /dev/fuse ]; then
    say "/dev/fuse is missing: loading the kernel module, else making the device"
    as_root modprobe fuse 2>/dev/null || true
    [ -e /dev/fuse ] || as_root mknod -m 0666 /dev/fuse c 10 229
  fi
  # udev makes it 0666 on an ordinary machine; a minimal one without udev leaves it 0600.
  if [ "$(stat -c %a /dev/fuse)" != 666 ]; then
    say "/dev/fuse is closed to ordinary users: making it 0666, as udev does"
    as_root chmod 0666 /dev/fuse
  fi
}

# The agents are the unmodified packages from the npm registry, at pinned versions.
ensure_agents() {
  ensure_agent claude "@anthropic-ai/claude-code@$claude_version"
  ensure_agent codex "@openai/codex@$codex_version"
}

ensure_agent() {
  local name=$1 package=$2 directory=$agents_dir/$1
  [ "$(cat "$directory/installed" 2>/dev/null)" != "$package" ] || return 0
  say "installing the agent $package into $directory (about 400 MB)"
  make_agents_dir
  rm -rf "$directory"
  # --force: the engines field asks for a newer Node than the native binary needs.
  if npm install --prefix "$directory" --cache "$agents_dir/.npm" --no-audit --no-fund \
    --ignore-scripts --force --loglevel=error "$package" </dev/null; then
    chmod -R a+rX "$directory"
    printf '%s' "$package" >"$directory/installed"
  else
    say "the agent $package could not be installed; its tests are skipped (on CI they fail)" >&2
    rm -rf "$directory"
  fi
  rm -rf "$agents_dir/.npm"
}

make_agents_dir() {
  [ -d "$agents_dir" ] && [ -w "$agents_dir" ] && return 0
  as_root install -d -m 0755 -o "$(id -un)" "$agents_dir"
}

main "$@"
