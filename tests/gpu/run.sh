#!/usr/bin/env bash
# Everything a machine with an NVIDIA GPU should do, within ten minutes: correctness first, then the table of kernels and
# that of whole models. Where vLLM is installed it is measured beside them, which takes some minutes more. Usage: tests/gpu/run.sh [--dry-run] [OUT]
#
#   OUT       folder for logs, gpu.json and table.txt (default: build/gpu)
#   BIN       folder of programs built elsewhere (cmake --preset cuda; LIB: their libraries). Without it they are built here
#             where cmake and the Debian packages are at hand; where there is only the CUDA toolkit, the kernel table alone.
#   SHAPES    models of the last table (default "1b 8b")
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

say() { printf '%s\n' "$*" | tee -a "$out/table.txt"; }

# stage NAME SECONDS COMMAND…: one line of the summary; the log is OUT/NAME.log.
stage() {
  local name=$1 limit=$2 started=$SECONDS
  shift 2
  if [[ $dry ]]; then
    say "would run: $name: $*"
    return 0
  fi
  if timeout -k 10 "$limit" "$@" >"$out/$name.log" 2>&1; then
    passed=$((passed + 1))
    say "ok      $name ($((SECONDS - started)) s)"
  else
    local status=$?
    failed=$((failed + 1))
    say "FAILED  $name: exit $status after $((SECONDS - started)) s; the end of $out/$name.log:"
    tail -n 12 "$out/$name.log" | sed 's/^/        /' | tee -a "$out/table.txt"
    return 1
  fi
}

skip() {
  skipped=$((skipped + 1))
  say "skipped $1: $2"
}

table() { [[ $dry || ! -f $out/$1.log ]] || { say ""; tee -a "$out/table.txt" <"$out/$1.log"; }; }

if command -v nvidia-smi >/dev/null; then
  say "$(nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.sm,clocks.mem --format=csv,noheader)"
elif [[ ! $dry ]]; then
  echo "There is no nvidia-smi, so no GPU to run on; --dry-run shows what would be done." >&2
  exit 69
fi

PATH=$PATH:/usr/local/cuda/bin

# --- programs
bin=${BIN-}
export LD_LIBRARY_PATH=${LIB:+$LIB:}${LD_LIBRARY_PATH-}
nvcc=$(command -v nvcc || echo nvcc)
if [[ ! $bin ]] && command -v cmake >/dev/null && dpkg-query -W libabsl-dev libgtest-dev >/dev/null 2>&1; then
  stage configure 60 cmake --preset cuda
  stage build 900 cmake --build build/cuda --target cuda_kv_gpu_test cuda_device_gpu_test cuda_engine_gpu_test kernel_bench engine_bench
  bin=build/cuda/tests/gpu
fi
if [[ ! $bin ]]; then
  if [[ ! -x $nvcc && ! $dry ]]; then
    say "There are neither programs (BIN) nor a compiler."
    exit 69
  fi
  # The kernels and their oracle need the toolkit alone.
  bin=$out
  stage build_kernels 300 "$nvcc" -std=c++20 --expt-relaxed-constexpr -O3 -lineinfo -I. -arch=native -x cu -o "$bin/kernel_bench" tests/gpu/kernel_bench.cc \
    kernels/cuda/*.cu kernels/cuda/cuda_error.cc \
    kernels/cuda/memory.cc kernels/cuda/step_table.cc kernels/reference.cc -lcublas
fi

# test_program NAME SECONDS [COMMAND in front …]
test_program() {
  local name=$1 program=$2 limit=$3
  shift 3
  if [[ -x $bin/$program || $dry ]]; then
    stage "$name" "$limit" "$@"
  else
    skip "$name" "there is no $bin/$program"
  fi
}

# --- correctness, adversarial inputs first
test_program ops cuda_device_gpu_test 60 "$bin/cuda_device_gpu_test"
test_program attention_h2o_sampling cuda_kv_gpu_test 180 "$bin/cuda_kv_gpu_test"
test_program engine cuda_engine_gpu_test 120 "$bin/cuda_engine_gpu_test"
if command -v compute-sanitizer >/dev/null; then
  sanitizer=(compute-sanitizer --error-exitcode 9)
  test_program memcheck cuda_device_gpu_test 120 "${sanitizer[@]}" "$bin/cuda_device_gpu_test"
  test_program memcheck_attention cuda_kv_gpu_test 120 "${sanitizer[@]}" "$bin/cuda_kv_gpu_test" \
    --gtest_filter='HeadDims*dim34*:HeadDims*dim128*:Shrink*Random*:*Greedy*:*KBest*'
  test_program racecheck cuda_kv_gpu_test 120 "${sanitizer[@]}" --tool racecheck "$bin/cuda_kv_gpu_test" \
    --gtest_filter='HeadDims*bf16_dim64*:Shrink*Random*:*KBest*'
  for tool in racecheck synccheck; do
    test_program "${tool}_products" cuda_device_gpu_test 60 "${sanitizer[@]}" --tool $tool "$bin/cuda_device_gpu_test" \
      --gtest_filter='*SkinnyGemm*EveryFinish*bf16*'
  done
else
  skip compute-sanitizer "it is not installed"
fi

# --- speed
[[ $dry ]] || rm -f "$out/kernels.json" "$out"/engine_*.json "$out"/vllm_*.json
test_program kernels kernel_bench 120 "$bin/kernel_bench" "$out/kernels.json"
table kernels
bandwidth=$(grep -oE '"copy_gb_s": [0-9.]+' "$out/kernels.json" 2>/dev/null | grep -oE '[0-9.]+' || echo 0)
for shape in ${SHAPES:-1b 8b}; do
  test_program "engine_$shape" engine_bench 180 "$bin/engine_bench" --device cuda --shape "$shape" --bandwidth "${bandwidth:-0}" \
    --json "$out/engine_$shape.json"
  table "engine_$shape"
done

# --- one file
figures() { if [[ -s $1 ]]; then cat "$1"; else echo null; fi; }
write_json() {
  [[ ! $dry ]] || return 0
  {
    printf '{"kernels": %s' "$(figures "$out/kernels.json")"
    for shape in ${SHAPES:-1b 8b}; do
      printf ', "engine_%s": %s' "$shape" "$(figures "$out/engine_$shape.json")"
      for tokens in 1 129; do printf ', "vllm_%s_%d": %s' "$shape" $tokens "$(figures "$out/vllm_${shape}_$tokens.json")"; done
    done
    printf ', "passed": %d, "failed": %d, "skipped": %d}\n' "$passed" "$failed" "$skipped"
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
