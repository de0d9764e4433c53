#!/usr/bin/env bash
# Installs what a target needs and is missing, on Debian and its kin; prints nothing when all is there.
# usage: scripts/install.sh build|lint|test|stores|kafka|bench-flink|bench-kafka
#
# build: what the demo needs. lint: all crates compile. test: all tests run, with a real Kafka and servers of S3 in the cache.
# stores: the latter alone. kafka: Kafka alone. bench-flink: the comparison. bench-kafka: the one with Kafka.
#
# Rust itself is not installed here: which toolchain a machine has is its owner's choice; the oldest that works is said in
# Cargo.toml (`rust-version`).
set -euo pipefail

have() { command -v "$1" >/dev/null 2>&1; }

die() { printf 'install: %s\n' "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; elif have sudo; then sudo -n "$@" || sudo "$@"; else return 1; fi
}

# apt PACKAGE...: installs Debian packages, refreshing the lists first.
apt() {
  local wanted="$*"
  have apt-get || die "missing: $wanted (Debian's names). This machine has no apt-get; install them in its own way and run again"
  printf '==> install %s\n' "$wanted"
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update -q >/dev/null || die "missing: $wanted. 'apt-get update' failed; run it as root, then: apt-get install $wanted"
  as_root apt-get install -y -q --no-install-recommends "$@" >/dev/null || die "missing: $wanted. As root, run: apt-get install $wanted"
}

need_rust() {
  have cargo || die "missing: cargo. Install Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or newer, for example from https://rustup.rs, and run again"
  local part
  for part in fmt clippy; do
    cargo "$part" --version >/dev/null 2>&1 || die "missing: cargo $part. Run: rustup component add rustfmt clippy"
  done
}

need_compiler() {
  local packages=()
  have cc || packages+=(gcc)
  [ -e /usr/include/stdio.h ] || packages+=(libc6-dev)
  have git || packages+=(git)
  [ ${#packages[@]} -eq 0 ] || apt "${packages[@]}"
}

# What the C library of the Kafka client and RocksDB are built with.
need_cpp() {
  local packages=()
  have g++ || packages+=(g++)
  have make || packages+=(make)
  have pkg-config || packages+=(pkg-config)
  [ -e /usr/include/openssl/ssl.h ] || packages+=(libssl-dev)
  [ -e /usr/include/zlib.h ] || packages+=(zlib1g-dev)
  compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null || have llvm-config || packages+=(libclang-dev)
  have ccache || packages+=(ccache)
  [ ${#packages[@]} -eq 0 ] || apt "${packages[@]}"
}

# A real Kafka for tests, outside of the clone. Tests look for it in the same place.
need_kafka() {
  local packages=()
  have java || packages+=(default-jre-headless)
  have mvn || packages+=(maven)
  have python3 || packages+=(python3)
  python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
  [ ${#packages[@]} -eq 0 ] || apt "${packages[@]}"
  scripts/kafka/setup.sh "${STAUNCH_KAFKA:-${XDG_CACHE_HOME:-$HOME/.cache}/staunch/kafka}"
}

# Servers of S3 for tests, in the cache as well.
need_stores() {
  local packages=()
  have python3 || packages+=(python3)
  python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
  [ ${#packages[@]} -eq 0 ] || apt "${packages[@]}"
  scripts/stores/setup.sh "${STAUNCH_STORES:-${XDG_CACHE_HOME:-$HOME/.cache}/staunch/stores}"
}

need_java() {
  local packages=()
  have javac || packages+=(default-jdk-headless)
  have python3 || packages+=(python3)
  have pip || packages+=(python3-pip)
  have curl || packages+=(curl)
  [ ${#packages[@]} -eq 0 ] || apt "${packages[@]}"
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-}" in
  build) need_compiler; need_rust ;;
  lint) need_compiler; need_rust; need_cpp ;;
  test) need_compiler; need_rust; need_cpp; need_kafka; need_stores ;;
  stores) need_compiler; need_rust; need_stores ;;
  kafka) need_compiler; need_rust; need_cpp; need_kafka ;;
  bench-flink) need_compiler; need_rust; need_cpp; need_java ;;
  bench-kafka) need_compiler; need_rust; need_cpp; need_kafka; need_java ;;
  *) die "usage: scripts/install.sh build|lint|test|stores|kafka|bench-flink|bench-kafka" ;;
esac
