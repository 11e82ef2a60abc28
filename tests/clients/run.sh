#!/usr/bin/env bash
# Runs one real client, unmodified, against HYDRANTD in an environment of its own: run.sh CLIENT DIRECTORY, where CLIENT is one that
# has a list in requirements/ and DIRECTORY keeps the environments. guidellm and vllm bring all of PyTorch (6 and 8 GB), others take
# more than five seconds: they run when HYDRANT_CLIENTS=all. Exit 77: skipped, with the reason on the last line.
set -uo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
source "$here/../support/python_environment.sh"
client=${1:?usage: run.sh CLIENT DIRECTORY}
venv=${2:?usage: run.sh CLIENT DIRECTORY}/$client
requirements=$here/requirements/$client.txt

[[ -f $requirements ]] || { echo "$client: there is no such client in $here/requirements" >&2; exit 64; }
needs_server "$client"
case $client in
  guidellm | instructor | langchain | llama_cpp | lm_eval | openai_agents | pydantic_ai | vllm)
    [[ ${HYDRANT_CLIENTS-} == all ]] || skip "$client" "it takes a while, or gigabytes of packages; HYDRANT_CLIENTS=all runs it"
    ;;
esac
case $client in
  langchain | pydantic_ai)
    able=$here/../../models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf
    [[ -e $able ]] || skip "$client" "its tests want a model that can call tools (./hydrant fetch qwen2.5-coder-1.5b)"
    ;;
esac
prepare_python "$client" "$venv" "$requirements"
release_python

# No client may need the network: models, tokenizers and price lists stay local.
export HF_HUB_OFFLINE=1 LITELLM_LOCAL_MODEL_COST_MAP=True PYTHONDONTWRITEBYTECODE=1
exec "$venv/bin/python" "$here/check_$client.py"
