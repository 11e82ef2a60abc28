#!/usr/bin/env bash
# Runs one real client, unmodified, against HYDRANTD in an environment of its own: run.sh CLIENT DIRECTORY, where CLIENT is
# litellm, lm_eval, guidellm or vllm and DIRECTORY keeps the environments. guidellm and vllm bring all of PyTorch (6 and 8
# GB), so they run when HYDRANT_CLIENTS=all. Exit 77: skipped, with the reason on the last line.
set -uo pipefail

readonly kSkip=77
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
client=${1:?usage: run.sh CLIENT DIRECTORY}
venv=${2:?usage: run.sh CLIENT DIRECTORY}/$client
requirements=$here/requirements/$client.txt
export HYDRANTD=${HYDRANTD:-$here/../../build/release/hydrantd}
export HYDRANT_MODEL=${HYDRANT_MODEL:-$here/../../models/SmolLM2-135M-Instruct.Q4_1.gguf}

skip() {
  echo "$client: skipped: $1"
  exit $kSkip
}

[[ -f $requirements ]] || { echo "$client: there is no such client in $here/requirements" >&2; exit 64; }
[[ -x $HYDRANTD ]] || skip "there is no hydrantd at $HYDRANTD"
[[ -e $HYDRANT_MODEL ]] || skip "there is no model at $HYDRANT_MODEL (./hydrant up fetches it)"
command -v python3 >/dev/null || skip "there is no python3"
case $client in
  guidellm | vllm) [[ ${HYDRANT_CLIENTS-} == all ]] || skip "it brings gigabytes of packages; HYDRANT_CLIENTS=all runs it" ;;
esac

# The stamp holds the pinned list: another list, another environment.
if ! cmp -s "$requirements" "$venv/requirements.stamp"; then
  echo "$client: preparing $venv"
  rm -rf "$venv"
  mkdir -p "$venv"
  python3 -m venv --without-pip "$venv" || skip "python3 cannot make a virtual environment"
  python3 -m pip --python "$venv/bin/python" --disable-pip-version-check install --quiet --require-virtualenv \
    -r "$requirements" || skip "its packages could not be installed (no package index?)"
  cp "$requirements" "$venv/requirements.stamp"
fi

# No client may need the network: models, tokenizers and price lists stay local.
export HF_HUB_OFFLINE=1 LITELLM_LOCAL_MODEL_COST_MAP=True PYTHONDONTWRITEBYTECODE=1
exec "$venv/bin/python" "$here/check_$client.py"
