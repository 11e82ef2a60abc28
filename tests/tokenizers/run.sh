#!/usr/bin/env bash
# Compares Hydrant's tokenizers with Hugging Face's in an environment of its own: run.sh VENV TOOL [arguments of compare.py].
# Exit 77: skipped, with the reason on the last line (no Python, no package index, no data).
set -uo pipefail

readonly kSkip=77
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
venv=${1:?usage: run.sh VENV TOOL [arguments]}
tool=${2:?usage: run.sh VENV TOOL [arguments]}
shift 2

skip() {
  echo "tokenizers: skipped: $1"
  exit $kSkip
}

[[ -d $here/../../../shared/data/tokenizers ]] || skip "../shared/data/tokenizers is not there"
command -v python3 >/dev/null || skip "there is no python3"

# The stamp holds the pinned list: another list, another environment.
if ! cmp -s "$here/requirements.txt" "$venv/requirements.stamp"; then
  echo "tokenizers: preparing $venv"
  rm -rf "$venv"
  # Debian keeps ensurepip in a package of its own; pip can fill an environment from outside without it.
  python3 -m venv --without-pip "$venv" || skip "python3 cannot make a virtual environment"
  python3 -m pip --python "$venv/bin/python" --disable-pip-version-check install --quiet --no-deps --require-virtualenv \
    -r "$here/requirements.txt" || skip "the Python packages of requirements.txt could not be installed (no package index?)"
  cp "$here/requirements.txt" "$venv/requirements.stamp"
fi

exec "$venv/bin/python" -B "$here/compare.py" "$tool" "$@"
