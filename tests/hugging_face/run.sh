#!/usr/bin/env bash
# Compares Hydrant with what Hugging Face's code does, in an environment of its own: run.sh VENV tokenizers|templates|published TOOL
# [arguments of compare_tokenizers.py, compare_templates.py or compare_published.py].
# Exit 77: skipped, with the reason on the last line (no Python, no package index, no data).
set -uo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
source "$here/../support/python_environment.sh"
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

[[ -z $data || -d $here/../../../shared/data/$data ]] || skip "$what" "../shared/data/$data is not there"
prepare_python "$what" "$venv" "$here/requirements.txt" --no-deps
release_python
exec "$venv/bin/python" -B "$here/compare_$what.py" "$tool" "$@"
