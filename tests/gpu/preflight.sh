#!/usr/bin/env bash
# What the programs need of the machine: a line for each thing, and what to do where it is missing. Exits 1 where something is.
# Usage: tests/gpu/preflight.sh PROGRAM…  (those that are not there are left out)
set -uo pipefail

bad=0
ok() { printf 'ok      %s\n' "$*"; }
fail() {
  printf 'FAILED  %s\n' "$*"
  bad=1
}

# Where the loader finds each program's libraries. The CUDA runtime is linked in; cuBLAS is not, and its name says the toolkit.
toolkit=
for program in "$@"; do
  [[ -x $program ]] || continue
  libraries=$(ldd "$program" 2>/dev/null)
  missing=$(awk '/not found/ { print $1 }' <<<"$libraries" | sort -u | paste -sd ' ')
  if [[ $missing ]]; then
    fail "${program##*/}: the loader does not find $missing; set LIB to their folder"
  else
    ok "${program##*/}: all libraries are there"
  fi
  toolkit=${toolkit:-$(grep -oE 'libcublas\.so\.[0-9]+' <<<"$libraries" | head -n 1 | grep -oE '[0-9]+$')}
done

# Programs of toolkit N run with drivers of CUDA N, and not with older ones (CUDA's release notes, table of drivers).
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
driver_cuda=$(nvidia-smi | grep -oE 'CUDA Version: [0-9]+' | grep -oE '[0-9]+')
if [[ ! $toolkit || ! $driver_cuda ]]; then
  ok "driver $driver; which toolkit the programs are of is not known"
elif ((driver_cuda < toolkit)); then
  declare -A oldest=([12]=525 [13]=580)
  fail "driver $driver is for CUDA $driver_cuda, the programs are of toolkit $toolkit: it needs driver ${oldest[$toolkit]:-of CUDA $toolkit} or newer," \
    "or programs built with toolkit $driver_cuda"
else
  ok "driver $driver, for CUDA $driver_cuda; the programs are of toolkit $toolkit"
fi

# The kernels need 8.0 (bf16 on tensor cores, asynchronous copies). engine_bench's 8b has 16 GB of weights in bf16.
while IFS=', ' read -r capability free_mib; do
  if awk -v c="$capability" 'BEGIN { exit !(c >= 8.0) }'; then
    ok "compute capability $capability"
  else
    fail "compute capability $capability: the kernels need 8.0"
  fi
  if ((free_mib >= 20480)); then
    ok "$free_mib MiB free, enough for the shapes 1b and 8b"
  else
    ok "$free_mib MiB free: 8b needs 20480; SHAPES=1b leaves it out"
  fi
done < <(nvidia-smi --query-gpu=compute_cap,memory.free --format=csv,noheader,nounits | head -n 1)
exit "$bad"
