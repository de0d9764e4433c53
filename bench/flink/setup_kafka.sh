#!/usr/bin/env bash
# Flink as setup_flink.sh makes it, and a jar with the Kafka connector and the program that crates/kafka-bench runs:
# $FLINKBENCH_WORK/kafka.jar.
set -euo pipefail
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
WORK="${FLINKBENCH_WORK:?set FLINKBENCH_WORK to a working directory}"
mkdir -p "$WORK"
"$HERE/setup_flink.sh"
stamp="$(sha256sum <"$HERE/kafka/pom.xml")"
if [ "$(cat "$WORK/kafka-libs/ready" 2>/dev/null)" != "$stamp" ]; then
  rm -rf "$WORK/kafka-libs"
  mvn --batch-mode --quiet -Dstyle.color=never --file "$HERE/kafka/pom.xml" dependency:copy-dependencies \
    -DoutputDirectory="$WORK/kafka-libs" -DincludeScope=runtime
  # Flink brings its own.
  rm -f "$WORK"/kafka-libs/slf4j-api-*.jar
  echo "$stamp" >"$WORK/kafka-libs/ready"
fi
rm -rf "$WORK/kafka-classes"; mkdir -p "$WORK/kafka-classes"
for jar in "$WORK"/kafka-libs/*.jar; do (cd "$WORK/kafka-classes" && jar xf "$jar"); done
rm -rf "$WORK"/kafka-classes/META-INF/*.SF "$WORK"/kafka-classes/META-INF/*.RSA "$WORK"/kafka-classes/module-info.class
javac -nowarn -proc:none -Xlint:none -cp "$WORK/classes:$(echo "$WORK"/flink/lib/*.jar "$WORK"/kafka-libs/*.jar | tr ' ' ':')" \
  -d "$WORK/kafka-classes" "$HERE"/kafka/bench/*.java
cp -r "$WORK/classes/bench" "$WORK/kafka-classes/"
(cd "$WORK/kafka-classes" && jar cf "$WORK/kafka.jar.new" . && mv "$WORK/kafka.jar.new" "$WORK/kafka.jar")
echo "kafka jar at $WORK/kafka.jar"
