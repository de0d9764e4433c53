#!/usr/bin/env bash
# Brings a Kafka that tests can start in about a second into one folder; does nothing when it is there already.
# usage: scripts/kafka/setup.sh DIRECTORY
#
# What comes to lie there: the jars of the broker (libs), storage formatted by Kafka's own tool for a cluster of one and of three
# brokers (formatted-1, formatted-3), an archive of loaded classes that makes the start three times faster (classes.jsa), and a
# Python with an independent client (venv).
set -euo pipefail
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
DIRECTORY="${1:?usage: scripts/kafka/setup.sh DIRECTORY}"
START_SECONDS_MAX=120

die() { printf 'kafka: %s\n' "$*" >&2; exit 1; }

# format BROKERS MIN_ISR: storage of node 1, with users for the tests of SCRAM.
format() {
  local folder="$DIRECTORY/formatted-$1" voters="" node scram=() name mechanism
  for node in $(seq "$1"); do voters+="${voters:+,}$node@127.0.0.1:$((19090 + node))"; done
  rm -rf "$folder"
  cat >"$DIRECTORY/format.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=$voters
listeners=PLAINTEXT://127.0.0.1:19080,CONTROLLER://127.0.0.1:19091
controller.listener.names=CONTROLLER
min.insync.replicas=$2
log.dirs=$folder
PROPERTIES
  for name in admin app; do
    for mechanism in SCRAM-SHA-256 SCRAM-SHA-512; do scram+=(--add-scram "$mechanism=[name=$name,password=$name-secret]"); done
  done
  java -cp "$CLASSES" kafka.tools.StorageTool format --cluster-id staunchtestbedclusterA --config "$DIRECTORY/format.properties" "${scram[@]}" \
    >"$DIRECTORY/format.log" 2>&1 || die "the storage cannot be formatted: $(tail -5 "$DIRECTORY/format.log")"
}

# Starts a broker once and stops it, to write down which classes it loads.
archive_classes() {
  local scratch="$DIRECTORY/scratch" broker second
  rm -rf "$scratch" "$DIRECTORY/classes.jsa"
  cp -r "$DIRECTORY/formatted-1" "$scratch"
  sed -e "s#^log.dirs=.*#log.dirs=$scratch#" "$DIRECTORY/format.properties" >"$DIRECTORY/archive.properties"
  java -XX:ArchiveClassesAtExit="$DIRECTORY/classes.jsa" -Xmx256m -XX:+UseSerialGC \
    -Dlog4j2.configurationFile="$DIRECTORY/log4j2.xml" -cp "$CLASSES" kafka.Kafka "$DIRECTORY/archive.properties" >"$DIRECTORY/archive.log" 2>&1 &
  broker=$!
  for second in $(seq "$START_SECONDS_MAX"); do
    grep -q "Kafka Server started" "$DIRECTORY/archive.log" 2>/dev/null && break
    kill -0 "$broker" 2>/dev/null || break
    sleep 1
  done
  kill "$broker" 2>/dev/null || true
  wait "$broker" || true
  grep -q "Kafka Server started" "$DIRECTORY/archive.log" || die "the broker does not start: $(tail -5 "$DIRECTORY/archive.log")"
  [ -s "$DIRECTORY/classes.jsa" ] || die "no archive of classes was written: $(tail -5 "$DIRECTORY/archive.log")"
  rm -rf "$scratch"
}

mkdir -p "$DIRECTORY"
DIRECTORY="$(cd "$DIRECTORY" && pwd)"
exec 9>"$DIRECTORY/lock"
flock 9
stamp="$(cat "$HERE"/* | sha256sum | cut -d ' ' -f 1) $(java -version 2>&1 | sha256sum | cut -d ' ' -f 1)"
[ "$(cat "$DIRECTORY/ready" 2>/dev/null)" != "$stamp" ] || exit 0
printf '==> set up Kafka in %s\n' "$DIRECTORY"
rm -rf "$DIRECTORY/ready" "$DIRECTORY/libs"
mvn --batch-mode --quiet -Dstyle.color=never --file "$HERE/pom.xml" dependency:copy-dependencies -DoutputDirectory="$DIRECTORY/libs" -DincludeScope=runtime ||
  die "Maven cannot bring the jars; see the lines above"
cp "$HERE/log4j2.xml" "$DIRECTORY/log4j2.xml"
CLASSES="$(printf '%s\n' "$DIRECTORY"/libs/*.jar | LC_ALL=C sort | paste -s -d :)"
printf '%s' "$CLASSES" >"$DIRECTORY/classpath"
format 3 2
format 1 1
archive_classes
python3 -m venv --clear "$DIRECTORY/venv"
"$DIRECTORY/venv/bin/pip" install --quiet --requirement "$HERE/requirements.txt" || die "pip cannot bring the independent client; see the lines above"
printf '%s\n' "$stamp" >"$DIRECTORY/ready"
