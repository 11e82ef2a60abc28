# Sourced by the run.sh of suites that need Python packages. Nothing is installed outside of the environment's folder.

# Exits as ctest's "skipped": skip SUITE REASON.
skip() {
  echo "$1: skipped: $2"
  exit 77
}

# prepare_python SUITE VENV REQUIREMENTS [pip options]: an environment in VENV with the packages of the pinned list, made
# once; skips the suite where that cannot be. The stamp holds the list: another list, another environment. Who shares an
# environment waits here until release_python.
prepare_python() {
  local suite=$1 venv=$2 requirements=$3
  shift 3
  command -v python3 >/dev/null || skip "$suite" "there is no python3"
  mkdir -p "$(dirname "$venv")"
  exec {environment_lock}>"$venv.lock"
  flock "$environment_lock"
  ! cmp -s "$requirements" "$venv/requirements.stamp" || return 0
  echo "$suite: preparing $venv"
  rm -rf "$venv"
  mkdir -p "$venv"
  # Debian keeps ensurepip in a package of its own; pip can fill an environment from outside without it.
  python3 -m venv --without-pip "$venv" || skip "$suite" "python3 cannot make a virtual environment"
  # The list has all that is needed, by hash. Resolving it again, pip 23 takes `typepy[datetime]` for a package without one.
  python3 -m pip --python "$venv/bin/python" --disable-pip-version-check install --quiet --no-deps --require-virtualenv "$@" \
    -r "$requirements" || skip "$suite" "the packages of $requirements could not be installed (no package index, or another Python than the 3.11 whose hashes it has?)"
  cp "$requirements" "$venv/requirements.stamp"
}

release_python() { exec {environment_lock}>&-; }

# needs_server SUITE: exports HYDRANTD and HYDRANT_MODEL, those of a Release build where nothing else is said.
needs_server() {
  local root
  root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../..
  export HYDRANTD=${HYDRANTD:-$root/build/release/hydrantd}
  export HYDRANT_MODEL=${HYDRANT_MODEL:-$root/models/SmolLM2-135M-Instruct.Q4_1.gguf}
  [[ -x $HYDRANTD ]] || skip "$1" "there is no hydrantd at $HYDRANTD"
  [[ -e $HYDRANT_MODEL ]] || skip "$1" "there is no model at $HYDRANT_MODEL (./hydrant up fetches it)"
}
