#!/usr/bin/env bash
# Brings servers of S3 that tests start into one folder; does nothing when they are there already.
# usage: scripts/stores/setup.sh DIRECTORY
#
# What comes to lie there: a Python with moto and ministack, two servers of S3 that share no code, with no more than S3 needs (venv).
set -euo pipefail
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
DIRECTORY="${1:?usage: scripts/stores/setup.sh DIRECTORY}"

die() { printf 'stores: %s\n' "$*" >&2; exit 1; }

mkdir -p "$DIRECTORY"
DIRECTORY="$(cd "$DIRECTORY" && pwd)"
exec 9>"$DIRECTORY/lock"
flock 9
stamp="$(cat "$HERE"/* | sha256sum | cut -d ' ' -f 1) $(python3 --version)"
[ "$(cat "$DIRECTORY/ready" 2>/dev/null)" != "$stamp" ] || exit 0
printf '==> set up servers of S3 in %s\n' "$DIRECTORY"
rm -rf "$DIRECTORY/ready"
python3 -m venv --clear "$DIRECTORY/venv"
"$DIRECTORY/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$HERE/requirements.txt" ||
  die "pip cannot bring the servers of S3; see the lines above"
printf '%s\n' "$stamp" >"$DIRECTORY/ready"
