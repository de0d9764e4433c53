#!/usr/bin/env bash
# One bench job on a cluster of its own: starts it, runs the job, stops it. The RESULT line goes to stdout and to $RESULTS.
# usage: one.sh "-Dtaskmanager.setting=value ..." DataStreamBench|SqlBench --workload NAME ...
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
trap stop_cluster EXIT
one "$@"
