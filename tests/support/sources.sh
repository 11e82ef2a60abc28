# What `./hydrant fmt` and `./hydrant lint` do. The door sources it, and has what is used here besides: say, die, ensure_packages;
# kBuild, kExitUsage, kLogs.

format_sources() {
  local files=()
  command -v clang-format-14 >/dev/null || ensure_packages fmt
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cc' '*.cu' '*.cuh')
  ((${#files[@]})) || exit 0
  case ${1-} in
    --check) clang-format-14 --dry-run --Werror "${files[@]}" ;;
    '') clang-format-14 -i "${files[@]}" && say "Formatted ${#files[@]} files." ;;
    *) say "hydrant: fmt knows only --check, not $1"; exit $kExitUsage ;;
  esac
}

lint_sources() {
  local files=()
  command -v run-clang-tidy-14 >/dev/null || ensure_packages lint
  case ${1-} in
    --all) mapfile -t files < <(git ls-files -- '*.cc' ':!tests') ;;
    '') mapfile -t files < <({ git diff --name-only --diff-filter=d "$(git merge-base HEAD origin/main 2>/dev/null || echo HEAD)" -- '*.cc'
        git ls-files --others --exclude-standard -- '*.cc'; } | sort -u) ;;
    *) files=("$@") ;;
  esac
  local file
  for file in "${files[@]}"; do
    [[ -f $file ]] && continue
    say "hydrant: there is no source file $file."
    exit $kExitUsage
  done
  ((${#files[@]})) || { say "No changed sources; ./hydrant lint --all checks them all."; exit 0; }
  ensure_packages build
  # A command for each source, of which builds merge some.
  mkdir -p "$kLogs"
  cmake --preset release -B "$kBuild/lint" -D HYDRANT_MERGE=OFF >"$kLogs/lint.log" 2>&1 || die "cmake failed. Log: $kLogs/lint.log"
  # The compiler knows warnings that clang does not. The list of files is one of regular expressions.
  run-clang-tidy-14 -quiet -p "$kBuild/lint" -extra-arg=-Wno-unknown-warning-option \
    "${files[@]/#/^$PWD/}" 2>&1 | grep -vE '^([0-9]+ warnings? (generated|and )|clang-tidy-14 )'
  exit "${PIPESTATUS[0]}"
}
