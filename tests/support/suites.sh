# What `./hydrant test` does: builds, suites and their times. The door sources it, and has what is used here besides: say, progress,
# phase, build, is_of_another_tree, ensure_packages, ensure_model, meant; kBuild, kExitUsage, kLogs, phases.

# build_ahead PRESET: builds it beside the tests that run now, with what they leave of the processors.
ahead_preset='' ahead_process=''
build_ahead() {
  ahead_preset=$1
  set -m  # a process group, so that all of it can be ended
  { renice -n 19 -p "$BASHPID" >/dev/null && build "$1" "$(target_of "$1")"; } >"$kLogs/ahead-$1.log" 2>&1 &
  ahead_process=$!
  set +m
}
end_build_ahead() { [[ -z $ahead_process ]] || kill -- "-$ahead_process" 2>/dev/null; }

# finish_build PRESET: what began beside tests goes on, else it begins now.
finish_build() {
  if [[ $1 != "$ahead_preset" ]]; then
    build "$1" "$(target_of "$1")"
    return
  fi
  local started=$SECONDS status=0
  renice -n 0 -g "$ahead_process" >/dev/null 2>&1  # only root may
  wait "$ahead_process" || status=$?
  ahead_preset='' ahead_process=''
  phase "wait for build $1" "$started"
  tail -n 60 "$kLogs/ahead-$1.log" >&2
  return "$status"
}

target_of() { if [[ $1 == release ]]; then echo all; else echo checks; fi; }

# run_ctest PRESET PART JOBS ARGS …: one run of ctest; no test may match. What passes is not shown.
run_ctest() {
  local preset=$1 part=$2 jobs=$3 report started=$SECONDS
  shift 3
  report=$kLogs/ctest-$preset-$part.xml
  ctest --test-dir "$kBuild/$preset" --output-on-failure --no-tests=ignore -j "$jobs" \
    --output-junit "$(realpath -m -- "$report")" "$@" 2>&1 | tee "$kLogs/ctest-$preset-$part.log" |
    { grep -vE --line-buffered '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed |No tests were found)' || true; }
  # A test that fails is in the report; without one ctest itself has failed.
  if ((PIPESTATUS[0] != 0)) && [[ ! -f $report ]]; then broken=$((broken + 1)); fi
  phase "tests $preset, $part" "$started"
}

# run_suite PRESET EXCLUDE NEXT ARGS …: builds PRESET and runs its tests: first those that must have the machine to
# themselves, then the others, beside which the preset NEXT is built. A build that fails counts as one failure.
readonly kAlone='^(timing|machine)$'
broken=0
run_suite() {
  local preset=$1 exclude=$2 next=$3 jobs
  shift 3
  if ! finish_build "$preset"; then
    broken=$((broken + 1))
    [[ -z $next ]] || build_ahead "$next"
    return
  fi
  say "== tests, $preset"
  find "$kBuild/$preset/tests" -name '*_test.*.xml' -delete
  run_ctest "$preset" alone 1 -L "$kAlone" -LE "$exclude" "$@"
  [[ -z $next ]] || build_ahead "$next"
  # Nothing in an instrumented program is timed, and a fuzz target takes its time however many run beside it.
  jobs=$(nproc)
  [[ $preset == release ]] || jobs=$((2 * jobs))
  run_ctest "$preset" together "$jobs" -LE "$kAlone|$exclude" "$@"
}

# Where the time went, and what a run may take on two processors without a compiler cache.
readonly kTestMinutesMax=30
show_times() {
  local name seconds preset
  printf '\nWhere the time went (min:s)\n'
  while IFS=$'\t' read -r name seconds; do
    printf '  %-24s %3d:%02d\n' "$name" $((seconds / 60)) $((seconds % 60))
  done < <(awk -F '\t' '!($1 in sum) {order[++n] = $1} {sum[$1] += $2} END {for (i = 1; i <= n; ++i) print order[i] "\t" sum[order[i]]}' \
    "$phases")
  printf '  %-24s %3d:%02d\n' all $((SECONDS / 60)) $((SECONDS % 60))
  printf 'Slowest tests\n'
  while read -r seconds preset name; do
    printf '  %7.1f s  %-8s %s\n' "$seconds" "$preset" "$name"
  done <<<"$1"
  if ((SECONDS > 60 * kTestMinutesMax)); then
    printf 'This run took %d minutes; %d is the most it should take on two processors.\n' $((SECONDS / 60)) "$kTestMinutesMax"
  fi
}

# refuse_unknown_ctest_flags ARGS …: before a build of minutes, names a flag that ctest does not have. Where ctest is yet to be
# installed, ctest says so itself, later.
refuse_unknown_ctest_flags() {
  local argument flags
  command -v ctest >/dev/null || return 0
  flags=$(printf '%s\n' --fast && ctest --help | grep -oE -- '--[a-z-]+')
  for argument in "$@"; do
    argument=${argument%%=*}
    [[ $argument == --* ]] || continue
    grep -qxF -- "$argument" <<<"$flags" && continue
    say "hydrant: neither \`./hydrant test\` nor ctest has a flag $argument$(meant "$argument" <<<"$flags")"
    exit "$kExitUsage"
  done
}

run_tests() {
  local fast='' kind=each next='' report passed failed skipped argument filters=()
  for argument in "$@"; do
    if [[ $argument == --fast ]]; then fast=1; else filters+=("$argument"); fi
  done
  set -- "${filters[@]}"
  refuse_unknown_ctest_flags "$@"
  if is_of_another_tree "$kBuild/release"; then exit 1; fi
  mkdir -p "$kLogs"
  rm -f "$kLogs"/ctest-*.xml
  phases=$kLogs/phases
  : >"$phases"
  if [[ $fast ]]; then ensure_packages build check; else ensure_packages build check sanitize; fi
  ensure_model || say "Tests that need the default model will be skipped."
  trap end_build_ahead EXIT
  # `gpu` needs a device; `slow` and `timing` mean nothing, or take too long, in an instrumented program. A whole program is a
  # ctest (`shard`), and a TEST as well (`each`), for those who ask for one.
  (($#)) && kind=shard
  [[ $fast ]] || next=asan
  run_suite release "^(gpu|$kind)\$" "$next" "$@"
  if [[ ! $fast ]]; then
    run_suite asan "^(gpu|slow|timing|$kind)\$" tsan "$@"
    run_suite tsan "^(gpu|slow|timing|$kind)\$" '' "$@"
  fi
  report=$(python3 -B tests/support/test_report.py "$kLogs" "$kBuild") || broken=$((broken + 1))
  read -r passed failed skipped <<<"${report%%$'\n'*}"
  failed=$((${failed:-0} + broken))
  # Where nothing matched, nothing was tested.
  if ((${passed:-0} + failed + ${skipped:-0} == 0)); then failed=1; fi
  show_times "${report#*$'\n'}"
  printf '%d passed, %d failed, %d skipped\n' "${passed:-0}" "$failed" "${skipped:-0}"
  ((failed == 0 && passed > 0))
}
