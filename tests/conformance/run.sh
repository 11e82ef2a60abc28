#!/usr/bin/env bash
# Runs the conformance suite against HYDRANTD in an environment of its own: run.sh VENV [pytest arguments].
# With HYDRANT_SMALL=1 the network is a tiny random one with the model's tokenizer (small_model.py).
# Exit 77: skipped, with the reason on the last line (no Python, no package index, no model).
set -uo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
source "$here/../support/python_environment.sh"
venv=${1:?usage: run.sh VENV [pytest arguments]}
shift
needs_server conformance
prepare_python conformance "$venv" "$here/requirements.txt"

if [[ ${HYDRANT_SMALL-} ]]; then
  small=$venv/small.gguf
  if [[ ! -e $small || $here/small_model.py -nt $small || $HYDRANT_MODEL -nt $small ]]; then
    python3 -B "$here/small_model.py" "$HYDRANT_MODEL" "$small" ||
      skip conformance "the small model could not be made of $HYDRANT_MODEL"
  fi
  export HYDRANT_MODEL=$small
fi

release_python
exec "$venv/bin/python" -m pytest -c "$here/pytest.ini" --rootdir "$here" -p no:cacheprovider "$@" "$here"
