#!/usr/bin/env bash
# What others wrote to find out whether a file system is one, on a mount of ours.
#
#   tests/conformance/conformance.sh AEGIS-OS [pjdfstest|fsx|stress ...]     all of them without names
#
# pjdfstest and fsx (both the Rust ports) are installed with cargo, at fixed versions, into
# target/conformance. As root everything runs as root and as an ordinary user; else as this user.
# CONFORMANCE_OPERATIONS (1000000) and CONFORMANCE_SECONDS (600) bound fsx and the stress; TMPDIR says on
# which file system the project and the session lie.
set -euo pipefail

here=$(realpath "$(dirname "$0")")
root=$(realpath "$here/../..")
readonly here root tools=$root/target/conformance user=aegis-test
readonly operations=${CONFORMANCE_OPERATIONS:-1000000} seconds=${CONFORMANCE_SECONDS:-600}
failed=()
mounts=()

main() {
  binary=$(realpath "$1")
  shift
  # Short: the address of a socket has 108 bytes.
  work=$(mktemp -d "${TMPDIR:-/tmp}/conf.XXXXXX")
  trap clean_up EXIT
  # Accounts of the tests walk through it, and what root built may lie where nobody else can read.
  chmod 755 "$work"
  install -m 755 "$binary" "$work/aegis-os"
  ulimit -n "$(ulimit -Hn)"
  export RUST_BACKTRACE=0
  [ $# -gt 0 ] || set -- pjdfstest fsx stress
  local each
  for each in "$@"; do "run_$each"; done
  if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[@]}"
    exit 1
  fi
  echo "conformance: nothing failed"
}

run_pjdfstest() {
  install_tool pjdfstest 0.2.2
  local who
  for who in $(identities); do
    local mnt out=$work/$who.out
    mount_as "$who" "$who"
    # A second file system, for the cases that cross from one to another.
    local other
    other=$(mktemp -d /dev/shm/conf.XXXXXX)
    own "$who" "$other"
    step "pjdfstest as $who"
    as "$who" "$tools/bin/pjdfstest" -c "$here/pjdfstest.toml" -s "$other" -p "$mnt" >"$out" 2>&1 ||
      failed+=("pjdfstest as $who")
    grep -A 1 'FAILED' "$out" || true
    grep '^Summary' "$out" || tail -n 5 "$out"
    rm -rf "$other"
  done
}

# A file of the host that is emptied, a new one, one that has been taken up, and one of the host
# that is written to in place.
run_fsx() {
  install_tool fsx 0.3.2
  local mnt name config
  mkdir -p "$work/fsx/project"
  for name in lower copied; do head -c 1048576 /dev/urandom >"$work/fsx/project/$name"; done
  head -c 8388608 /dev/urandom >"$work/fsx/project/in-place"
  mount_as "$(id -un)" fsx
  printf 'taken up' | dd of="$mnt/copied" conv=notrunc status=none
  for name in lower upper copied in-place; do
    config=$here/fsx.toml
    [ "$name" != in-place ] || config=$here/fsx-in-place.toml
    step "fsx, $operations operations on the file $name"
    "$tools/bin/fsx" -q -f "$config" -N "$operations" -S 1 -P "$work/fsx" "$mnt/$name" ||
      failed+=("fsx on the file $name")
  done
}

run_stress() {
  step "sixteen processes for $seconds seconds"
  (cd "$root" && AEGISFS_STRESS=$seconds cargo test --locked -p aegisfs --test main -- --exact \
    --nocapture overlay::semantics::stress::sixteen_processes_lose_nothing) ||
    failed+=("the stress")
}

# Mounts the project $work/$2/project as a user; `mnt` is where.
mount_as() {
  local place=$work/$2
  mkdir -p "$place/project" "$place/m" "$place/home"
  mnt=$place/m
  own "$1" "$place"
  as "$1" env AEGIS_HOME="$place/home" "$work/aegis-os" mount "$place/project" "$mnt" \
    >"$place/log" 2>&1 &
  mounts+=("$mnt")
  local tries
  for ((tries = 0; tries < 200; tries++)); do
    # Not mountpoint(1): root may not look into the mount of a user.
    if grep -q " $mnt fuse" /proc/self/mounts; then return; fi
    sleep 0.05
  done
  cat "$place/log" >&2
  exit 1
}

identities() {
  if [ "$(id -u)" = 0 ]; then echo "root $user"; else id -un; fi
}

as() {
  local who=$1
  shift
  if [ "$who" = "$(id -un)" ]; then "$@"; else setpriv --reuid "$who" --regid "$who" --init-groups "$@"; fi
}

own() {
  if [ "$1" != "$(id -un)" ]; then chown -R "$1:" "$2"; fi
}

install_tool() {
  if [ "$("$tools/bin/$1" --version 2>/dev/null)" != "$1 $2" ]; then
    step "installing $1 $2 with cargo"
    cargo install --quiet --locked --root "$tools" --target-dir "$root/target/conformance/build" "$1@$2"
  fi
}

step() { printf '\n== %s\n' "$*"; }

clean_up() {
  local mnt
  for mnt in "${mounts[@]}"; do umount -l "$mnt" 2>/dev/null || fusermount3 -uz "$mnt" || true; done
  wait
  rm -rf "$work"
}

main "$@"
