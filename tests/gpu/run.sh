#!/usr/bin/env bash
# Everything a machine with an NVIDIA GPU should do, within ten minutes after the build: first what the machine lacks, then every kernel
# once under compute-sanitizer, correctness, the table of kernels and that of whole models, more of compute-sanitizer in what is left. Where vLLM is installed it is measured beside them, which takes
# some minutes more. Usage: tests/gpu/run.sh [--dry-run] [OUT]
#
#   OUT       folder for logs, gpu.json and table.txt (default: build/gpu)
#   BIN       folder of programs built elsewhere (cmake --preset cuda; LIB: their libraries). Without it they are built here
#             where CMake finds what they need; where there is only the CUDA toolkit, the kernel table alone.
#   SHAPES    models of the last table (default "1b 8b")
#   DEADLINE  seconds for all but the build and vLLM (default 600). What comes too late is reported as failed, out of time.
#   DEVICE    that hydrantd serves with (default cuda)
#
# The last line is `N passed, N failed, N skipped`; the exit status is 0 when nothing failed.
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." || exit 1

dry=
[[ ${1-} == --dry-run ]] && { dry=1; shift; }
out=${1:-build/gpu}
mkdir -p "$out"
: >"$out/table.txt"
passed=0 failed=0 skipped=0
stages=      # of gpu.json
ends_at=     # of SECONDS; empty: only a stage's own limit counts
export HYDRANT_SOURCES=$PWD  # programs built elsewhere look for the goldens where they were built

say() { printf '%s\n' "$*" | tee -a "$out/table.txt"; }

record() { stages+="${stages:+,}"$'\n '"{\"name\": \"$1\", \"result\": \"$2\", \"seconds\": $3}"; }

# fail NAME SECONDS RESULT
fail() {
  failed=$((failed + 1))
  record "$1" "$3" "$2"
}

skip() {
  skipped=$((skipped + 1))
  record "$1" skipped 0
  say "skipped $1: $2"
}

# stage NAME SECONDS COMMAND…: one line of the summary; the log is OUT/NAME.log. A command that exits 77 is skipped for the reason in
# its last line.
stage() {
  local name=$1 limit=$2 started=$SECONDS left status spent result=failed
  shift 2
  if [[ $dry ]]; then
    say "would run: $name, at most $limit s: $*"
    return 0
  fi
  rm -f "$out/$name.log"  # of an earlier run
  if [[ $ends_at ]]; then
    left=$((ends_at - SECONDS))
    if ((left <= 0)); then
      fail "$name" 0 "out of time"
      say "FAILED  $name: out of time: $deadline s were over before it"
      return 1
    fi
    limit=$((limit < left ? limit : left))
  fi
  timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1
  status=$? spent=$((SECONDS - started))
  case $status in
    0)
      passed=$((passed + 1))
      record "$name" passed "$spent"
      say "ok      $name ($spent s)"
      return 0
      ;;
    77)
      skip "$name" "$(tail -n 1 "$out/$name.log")"
      return 0
      ;;
    124 | 137)
      result="out of time"
      say "FAILED  $name: out of time after $spent s of at most $limit; the end of $out/$name.log:"
      ;;
    *) say "FAILED  $name: exit $status after $spent s; the end of $out/$name.log:" ;;
  esac
  fail "$name" "$spent" "$result"
  tail -n 12 "$out/$name.log" | sed 's/^/        /' | tee -a "$out/table.txt"
  return 1
}

table() { [[ $dry || ! -f $out/$1.log ]] || { say ""; tee -a "$out/table.txt" <"$out/$1.log"; }; }

# What was measured, on what. A tree without git has no commit; one with changes says so.
quoted() { if [[ $1 ]]; then printf '"%s"' "$1"; else echo null; fi; }
date=$(date -u +%FT%TZ)
commit=$(git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null)
gpu='' driver='' driver_cuda=''
if command -v nvidia-smi >/dev/null; then
  IFS=, read -r gpu driver < <(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)
  driver=${driver# }
  driver_cuda=$(nvidia-smi | grep -oE 'CUDA Version: [0-9.]+' | grep -oE '[0-9.]+')
  say "$(nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.sm,clocks.mem --format=csv,noheader)"
elif [[ ! $dry ]]; then
  echo "There is no nvidia-smi, so no GPU to run on; --dry-run shows what would be done." >&2
  exit 69
fi

PATH=$PATH:/usr/local/cuda/bin
nvcc=$(command -v nvcc || echo nvcc)
toolkit=$("$nvcc" --version 2>/dev/null | grep -oE 'release [0-9.]+' | grep -oE '[0-9.]+')
say "$date, commit ${commit:-unknown}, CUDA ${driver_cuda:-?} of the driver, ${toolkit:-none} of the toolkit"

# --- programs
bin=${BIN:-$out} hydrantd=${BIN:-$out}/hydrantd
export LD_LIBRARY_PATH=${LIB:+$LIB:}${LD_LIBRARY_PATH-}
# What CMake said was missing, or the end of what it said.
missing() { grep -m 1 -iE 'could not find' "$out/configure.log" || grep . "$out/configure.log" | tail -n 1; }
if [[ ! ${BIN-} ]]; then
  if ! command -v cmake >/dev/null; then
    skip build "there is no cmake; the toolkit alone makes the table of kernels"
  elif [[ ! $dry ]] && ! timeout -k 5 120 cmake --preset cuda >"$out/configure.log" 2>&1; then
    skip build "$(missing | sed 's/^ *//') ($out/configure.log); the toolkit alone makes the table of kernels"
  else
    bin=build/cuda/tests/gpu hydrantd=build/cuda/hydrantd
    # What compiles is run even if something does not.
    stage build 1800 cmake --build build/cuda --target cuda_kv_gpu_test cuda_device_gpu_test cuda_engine_gpu_test kernel_bench engine_bench \
      hydrantd -- -k 0
  fi
fi
bench=$bin/kernel_bench
if [[ ! -x $bench && ! ${BIN-} && ! $dry ]]; then
  # The kernels and their oracle need the toolkit alone.
  bench=$out/kernel_bench
  rm -f "$bench"
  if [[ -x $nvcc ]]; then
    architecture=(-arch=native)
    # Hopper's own instructions have to be asked for.
    [[ $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null) == 9.0* ]] &&
      architecture=(-gencode "arch=compute_90a,code=sm_90a" -DHYDRANT_SM90A)
    stage build_kernels 900 "$nvcc" -std=c++20 --expt-relaxed-constexpr -O3 -lineinfo -I. "${architecture[@]}" --threads 0 -x cu -o "$bench" \
      tests/gpu/kernel_bench.cc tests/gpu/bench*.cc kernels/cuda/*/*.cu kernels/cuda/runtime/cuda_error.cc kernels/cuda/runtime/memory.cc \
      kernels/cuda/step_table.cc kernels/cuda/linear/packed_layout.cc kernels/reference/reference.cc \
      kernels/reference/quantised_reference.cc -lcublas \
      -Xlinker -rpath -Xlinker "$(dirname "$(dirname "$(readlink -f "$nvcc")")")/lib64"
  else
    skip build_kernels "there is no nvcc"
  fi
fi
if [[ ! $dry && ! -x $bench && ! -x $bin/cuda_device_gpu_test ]]; then
  say "There are neither programs (BIN) nor a compiler that makes them."
  exit 69
fi

# program NAME FILE SECONDS [COMMAND …]: a stage, where there is the file.
program() {
  local name=$1 file=$2 limit=$3
  shift 3
  if [[ -x $file || $dry ]]; then
    stage "$name" "$limit" "$@"
  else
    skip "$name" "there is no $file"
  fi
}

deadline=${DEADLINE:-600}
begun=$SECONDS
ends_at=$((SECONDS + deadline))

# --- what the machine lacks, and every kernel of the table once
stage preflight 30 tests/gpu/preflight.sh "$bin"/{cuda_device_gpu_test,cuda_kv_gpu_test,cuda_engine_gpu_test,engine_bench} "$bench" "$hydrantd"
table preflight
if command -v compute-sanitizer >/dev/null; then
  sanitizer=(compute-sanitizer --error-exitcode 9)
  for tool in memcheck racecheck synccheck; do
    program "${tool}_kernels" "$bench" 60 "${sanitizer[@]}" --tool $tool "$bench" --small
  done
else
  sanitizer=()
  program kernels_small "$bench" 60 "$bench" --small
fi

# --- correctness: every kernel against the oracle with adversarial inputs, kept sets against the independent H2O, whole models token by
# token against transformers, the server against itself on the processor
program ops "$bin/cuda_device_gpu_test" 60 "$bin/cuda_device_gpu_test"
program attention_h2o_sampling "$bin/cuda_kv_gpu_test" 180 "$bin/cuda_kv_gpu_test"
program engine "$bin/cuda_engine_gpu_test" 180 "$bin/cuda_engine_gpu_test"
if command -v python3 >/dev/null; then
  program serve "$hydrantd" 90 python3 -B tests/gpu/serve_check.py "$hydrantd" "$out" "${DEVICE:-cuda}"
  program features "$hydrantd" 180 python3 -B tests/gpu/features_check.py "$hydrantd" "$out" "${DEVICE:-cuda}"
else
  skip serve "there is no python3"
  skip features "there is no python3"
fi

# --- speed
[[ $dry ]] || rm -f "$out/kernels.json" "$out"/engine_*.json "$out"/vllm_*.json
program kernels "$bench" 200 "$bench" "$out/kernels.json"
table kernels
bandwidth=$(grep -oE '"copy_gb_s": [0-9.]+' "$out/kernels.json" 2>/dev/null | grep -oE '[0-9.]+' || echo 0)
for shape in ${SHAPES:-1b 8b}; do
  program "engine_$shape" "$bin/engine_bench" 180 "$bin/engine_bench" --device cuda --shape "$shape" --bandwidth "${bandwidth:-0}" \
    --json "$out/engine_$shape.json"
  table "engine_$shape"
done

# --- compute-sanitizer on small shapes
if ((${#sanitizer[@]})); then
  program memcheck "$bin/cuda_device_gpu_test" 120 "${sanitizer[@]}" "$bin/cuda_device_gpu_test"
  program memcheck_attention "$bin/cuda_kv_gpu_test" 120 "${sanitizer[@]}" "$bin/cuda_kv_gpu_test" \
    --gtest_filter='HeadDims*dim34*:HeadDims*dim128*:Shrink*Random*:*Greedy*:*KBest*'
  program memcheck_engine "$bin/cuda_engine_gpu_test" 120 "${sanitizer[@]}" "$bin/cuda_engine_gpu_test" \
    --gtest_filter='Adapters.*:FusedExperts.*:ShapedAnswers.*:Models/SessionGoldens.*gqa_untied:Caches/Swaps.*int8:Types/ManyAdapters.*'
  program racecheck "$bin/cuda_kv_gpu_test" 120 "${sanitizer[@]}" --tool racecheck "$bin/cuda_kv_gpu_test" \
    --gtest_filter='HeadDims*bf16_dim64*:Shrink*Random*:*KBest*'
  for tool in racecheck synccheck; do
    program "${tool}_products" "$bin/cuda_device_gpu_test" 60 "${sanitizer[@]}" --tool $tool "$bin/cuda_device_gpu_test" \
      --gtest_filter='*PackedProductTest.A*'
  done
else
  skip compute-sanitizer "it is not installed"
fi
seconds=$((SECONDS - begun))
ends_at=

# --- one file
figures() { if [[ -s $1 ]]; then cat "$1"; else echo null; fi; }
write_json() {
  [[ ! $dry ]] || return 0
  {
    printf '{"date": "%s", "commit": %s, "gpu": %s, "driver": %s, "driver_cuda": %s, "toolkit_cuda": %s' "$date" "$(quoted "$commit")" \
      "$(quoted "$gpu")" "$(quoted "$driver")" "$(quoted "$driver_cuda")" "$(quoted "$toolkit")"
    printf ', "deadline_s": %d, "seconds": %d, "kernels": %s' "$deadline" "$seconds" "$(figures "$out/kernels.json")"
    for shape in ${SHAPES:-1b 8b}; do
      printf ', "engine_%s": %s' "$shape" "$(figures "$out/engine_$shape.json")"
      for tokens in 1 129; do printf ', "vllm_%s_%d": %s' "$shape" $tokens "$(figures "$out/vllm_${shape}_$tokens.json")"; done
    done
    printf ', "passed": %d, "failed": %d, "skipped": %d, "stages": [%s]}\n' "$passed" "$failed" "$skipped" "$stages"
  } >"$out/gpu.json"
}
write_json

# --- a peer, where the machine has it: vLLM with random weights of the same shapes, 32 prompts of 1,024 tokens. Between 129 and one
# token lie 128 decode steps: beside engine_bench's "batch 32, 1024 tokens". (vLLM samples at temperature 1, engine_bench takes the best.)
peer_config() {
  local sizes
  case $1 in
    1b) sizes='"hidden_size": 2048, "num_hidden_layers": 16, "intermediate_size": 8192, "head_dim": 64, "tie_word_embeddings": true' ;;
    8b) sizes='"hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 14336, "head_dim": 128' ;;
    *) return 1 ;;
  esac
  mkdir -p "$out/peer_$1"
  printf '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_attention_heads": 32, "num_key_value_heads": 8, %s,
 "vocab_size": 128256, "max_position_embeddings": 131072, "rope_theta": 500000.0, "rms_norm_eps": 1e-5, "hidden_act": "silu",
 "bos_token_id": 128000, "eos_token_id": 128001, "torch_dtype": "bfloat16"}\n' "$sizes" >"$out/peer_$1/config.json"
}
latency() { grep -oE '"avg_latency": [0-9.]+' "$out/vllm_$1_$2.json" | grep -oE '[0-9.]+'; }
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
for shape in ${SHAPES:-1b 8b}; do
  if ! command -v vllm >/dev/null; then
    skip "vllm_$shape" "it is not installed"
    continue
  fi
  if [[ ! $dry ]] && ! peer_config "$shape"; then
    skip "vllm_$shape" "nobody has told it this shape"
    continue
  fi
  for tokens in 1 129; do
    stage "vllm_${shape}_$tokens" 240 vllm bench latency --model "$out/peer_$shape" --load-format dummy --skip-tokenizer-init --disable-detokenize \
      --max-model-len 4096 --input-len 1024 --output-len "$tokens" --batch-size 32 --num-iters-warmup 2 --num-iters 3 \
      --output-json "$out/vllm_${shape}_$tokens.json"
  done
  if [[ -s $out/vllm_${shape}_1.json && -s $out/vllm_${shape}_129.json ]]; then
    say "vLLM, $shape: $(awk -v prompts="$(latency "$shape" 1)" -v all="$(latency "$shape" 129)" \
      'BEGIN { step = (all - prompts) / 128; printf "32 prompts of 1024 tokens %.3f s, decode step of 32 %.3f ms, %.0f tok/s", prompts, step * 1e3, 32 / step }')"
  fi
done
write_json

say ""
say "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
