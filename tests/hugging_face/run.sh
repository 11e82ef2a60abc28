#!/usr/bin/env bash
# Compares Hydrant with what Hugging Face's code does, in an environment of its own: run.sh VENV tokenizers|templates|published TOOL
# [arguments of compare_tokenizers.py, compare_templates.py or compare_published.py].
# Exit 77: skipped, with the reason on the last line (no Python, no package index, no data).
set -uo pipefail

readonly kSkip=77
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
venv=${1:?usage: run.sh VENV tokenizers|templates|published TOOL [arguments]}
what=${2:?usage: run.sh VENV tokenizers|templates|published TOOL [arguments]}
tool=${3:?usage: run.sh VENV tokenizers|templates|published TOOL [arguments]}
shift 3
case $what in
  tokenizers) data=tokenizers ;;
  templates) data=chat_templates ;;
  published) data= ;;
  *) echo "run.sh: '$what' is none of tokenizers, templates and published" >&2 && exit 64 ;;
esac

skip() {
  echo "$what: skipped: $1"
  exit $kSkip
}

[[ -z $data || -d $here/../../../shared/data/$data ]] || skip "../shared/data/$data is not there"
command -v python3 >/dev/null || skip "there is no python3"

# The stamp holds the pinned list: another list, another environment.
if ! cmp -s "$here/requirements.txt" "$venv/requirements.stamp"; then
  echo "$what: preparing $venv"
  rm -rf "$venv"
  # Debian keeps ensurepip in a package of its own; pip can fill an environment from outside without it.
  python3 -m venv --without-pip "$venv" || skip "python3 cannot make a virtual environment"
  python3 -m pip --python "$venv/bin/python" --disable-pip-version-check install --quiet --no-deps --require-virtualenv \
    -r "$here/requirements.txt" || skip "the Python packages of requirements.txt could not be installed (no package index?)"
  cp "$here/requirements.txt" "$venv/requirements.stamp"
fi

exec "$venv/bin/python" -B "$here/compare_$what.py" "$tool" "$@"
