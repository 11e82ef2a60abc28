#!/usr/bin/env bash
# Runs one fuzz target: run.sh PROGRAM FOUND SEEDS [libFuzzer flags]. It replays the seeds and what earlier runs left in
# FOUND/corpus, all of it, and looks for new inputs until HYDRANT_FUZZ_SECONDS (default 1: a test run repeats what is
# known; what is new takes hours, `./hydrant fuzz`) are over. An input that fails is kept in FOUND.
set -uo pipefail

program=${1:?usage: run.sh PROGRAM FOUND SEEDS [flags]}
found=${2:?usage: run.sh PROGRAM FOUND SEEDS [flags]}
seeds=${3:?usage: run.sh PROGRAM FOUND SEEDS [flags]}
shift 3
seconds=${HYDRANT_FUZZ_SECONDS:-1}
name=$(basename "$program" _fuzz)
mkdir -p "$found/corpus"
before=$(find "$found/corpus" -type f | wc -l)

# A single input may take ten seconds and 2 GiB: more is a finding. A target that does not end is one, too.
timeout -k 10 $((seconds + 240)) "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
  -print_final_stats=1 -artifact_prefix="$found/" "$@" "$found/corpus" "$seeds" 2>&1 | tee "$found/log"
status=${PIPESTATUS[0]}

inputs=$(grep -oP 'stat::number_of_executed_units: \K[0-9]+' "$found/log")
after=$(find "$found/corpus" -type f | wc -l)
if ((status)); then
  echo "fuzz.$name: FAILED with exit status $status; the input is in $found"
else
  echo "fuzz.$name: ${inputs:-?} inputs in $seconds s, $((after - before)) of them kept, which makes $after"
fi
exit "$status"
