#!/usr/bin/env bash
# Runs the conformance suite against HYDRANTD in an environment of its own: run.sh VENV [pytest arguments].
# With HYDRANT_SMALL=1 the network is a tiny random one with the model's tokenizer (small_model.py).
# Exit 77: skipped, with the reason on the last line (no Python, no package index, no model).
set -uo pipefail

readonly kSkip=77
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
venv=${1:?usage: run.sh VENV [pytest arguments]}
shift
export HYDRANTD=${HYDRANTD:-$here/../../build/release/hydrantd}
export HYDRANT_MODEL=${HYDRANT_MODEL:-$here/../../models/SmolLM2-135M-Instruct.Q4_1.gguf}

skip() {
  echo "conformance: skipped: $1"
  exit $kSkip
}

[[ -x $HYDRANTD ]] || skip "there is no hydrantd at $HYDRANTD"
[[ -e $HYDRANT_MODEL ]] || skip "there is no model at $HYDRANT_MODEL (./hydrant up fetches it)"
command -v python3 >/dev/null || skip "there is no python3"

# The stamp holds the pinned list: another list, another environment.
if ! cmp -s "$here/requirements.txt" "$venv/requirements.stamp"; then
  echo "conformance: preparing $venv"
  rm -rf "$venv"
  # Debian keeps ensurepip in a package of its own; pip can fill an environment from outside without it.
  python3 -m venv --without-pip "$venv" || skip "python3 cannot make a virtual environment"
  python3 -m pip --python "$venv/bin/python" --disable-pip-version-check install --quiet --require-virtualenv \
    -r "$here/requirements.txt" || skip "the Python packages of requirements.txt could not be installed (no package index?)"
  cp "$here/requirements.txt" "$venv/requirements.stamp"
fi

if [[ ${HYDRANT_SMALL-} ]]; then
  small=$venv/small.gguf
  if [[ ! -e $small || $here/small_model.py -nt $small || $HYDRANT_MODEL -nt $small ]]; then
    python3 -B "$here/small_model.py" "$HYDRANT_MODEL" "$small" || skip "the small model could not be made of $HYDRANT_MODEL"
  fi
  export HYDRANT_MODEL=$small
fi

exec "$venv/bin/python" -m pytest -c "$here/pytest.ini" --rootdir "$here" -p no:cacheprovider "$@" "$here"
