#include "server/tensor_parallel.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/parallel/cpu_ranks.h"
#include "server/process/host_facts.h"

namespace hydrant {
namespace {

std::string FlagOf(int32_t ranks) { return absl::StrCat("--tensor-parallel-size ", ranks, ": "); }

int32_t ThreadsOf(const Config& config) { return config.threads > 0 ? config.threads : UsableCores(); }

// "1, 2 or 4": what a number can be divided by.
std::string Divisors(int32_t number) {
  std::string text;
  for (int32_t i = 1; i < number; ++i) {
    if (number % i == 0) absl::StrAppend(&text, text.empty() ? "" : ", ", i);
  }
  return text.empty() ? "1" : absl::StrCat(text, " or ", number);
}

}  // namespace

std::string RanksOnGpu(int32_t ranks) {
  return absl::StrCat(FlagOf(ranks), "several GPUs are not supported; --device cpu has ranks");
}

absl::Status CheckRanks(int32_t ranks, const ModelConfig& model) {
  if (ranks == 1) return absl::OkStatus();
  const auto error = [ranks](const auto&... words) {
    return absl::InvalidArgumentError(absl::StrCat(FlagOf(ranks), words...));
  };
  if (model.experts > 0) return error("the model has experts, which ranks cannot divide");
  if (model.norms_over_heads) return error("the model has norms over all heads of a token, which ranks cannot divide");
  if (model.kv_heads % ranks != 0) {
    return error("each rank has as many of the model's ", model.kv_heads, " KV heads; it can be ",
                 Divisors(model.kv_heads));
  }
  const int64_t fewest = std::min<int64_t>({model.hidden, model.ffn, model.vocab, model.embedding_cols()});
  if (fewest < ranks) return error("the model has a matrix of ", fewest, " rows");
  return absl::OkStatus();
}

absl::StatusOr<OpenedDevice> OpenRanks(OpenedDevice opened, const Config& config) {
  if (opened.memory_bytes.has_value()) return absl::FailedPreconditionError(RanksOnGpu(config.ranks));
  CpuDeviceOptions options;
  options.threads = ThreadsOf(config);
  absl::StatusOr<std::unique_ptr<ShardedDevice>> ranks = MakeCpuRanks(config.ranks, options);
  if (!ranks.ok()) return ranks.status();
  opened.device = *std::move(ranks);
  return opened;
}

absl::StatusOr<OpenedDevice> OpenDeviceFor(const Config& config, const ModelConfig& model) {
  if (absl::Status status = CheckRanks(config.ranks, model); !status.ok()) return status;
  absl::StatusOr<OpenedDevice> opened = OpenDevice(config.device, ThreadsOf(config), config.enforce_eager);
  if (!opened.ok()) return opened;
  if (config.drafts.tokens > 0 && !opened->device->TakesDrafts()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--speculative-config: ", opened->device->name(), " computes no drafts; --device cpu does"));
  }
  if (config.ranks == 1) return opened;
  return OpenRanks(*std::move(opened), config);
}

}  // namespace hydrant
