#include "server/sizing.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "model/run/kv_cache.h"
#include "model/run/model_executor.h"
#include "server/engine/idle_replay.h"
#include "server/http/connection_table.h"
#include "server/speculative_config.h"

namespace hydrant {
namespace {

// Descriptors that are not connections: listener, reserve, epoll, timers, stderr, the dump file, and room for a
// scrape's reading of /proc.
constexpr int64_t kOtherFiles = 64;
// The threads that open, read and write KV have a file open each, and one before it.
constexpr int64_t kKvFiles = 8;

// What a connection may hold: its turn's file of KV waits beside it to be read.
int64_t FilesPerConnection(const Config& config) {
  return !config.session_dir.empty() && config.session_disk_bytes > 0 ? 2 : 1;
}

// `auto` keeps weights as they are stored; a type that is asked for is had by expanding all, unless a quantisation is
// asked for, too: then it is that of the rest.
WeightChoice ChooseWeights(const Config& config, const ModelConfig& model) {
  return {.expanded = config.weight_dtype.value_or(model.stored_dtype),
          .keep_quantised = !config.weight_dtype.has_value() || config.quantization != Quantization::kNone};
}

// Every limit that is not a part of a sum.
std::vector<std::string> Describe(const Limits& limits) {
  return {
      absl::StrCat("engine: sequences ", limits.sequences_max, " running + ", limits.waiting_sequences_max,
                   " waiting, jobs not yet seen ", limits.inbox_max, ", tokens per step ", limits.batch_tokens_max,
                   ", stalled after ", limits.engine_stall_s, " s"),
      absl::StrCat("request: ", limits.prompts_max, " prompts x ", limits.n_max, " samples, ",
                   limits.request_tokens_max(), " prompt tokens of all samples, ", limits.logprobs_kept_max,
                   " log-probabilities kept, ", limits.rolling_tokens_max,
                   " tokens generated with rolling positions, ended after ", limits.request_timeout_s,
                   " s, admitted within ", limits.queue_timeout_s, " s (0: no limit); JSON ", limits.json_depth_max,
                   " levels, ", limits.json_nodes_max, " values"),
      absl::StrCat("HTTP: header ", limits.header_bytes_max, " bytes, ", limits.header_fields_max, " fields, target ",
                   limits.uri_bytes_max, " bytes, in ", limits.header_timeout_s, " s; body ", limits.body_bytes_max,
                   " bytes in ", limits.body_timeout_s, " s; keep-alive ", limits.keepalive_timeout_s, " s; pipelined ",
                   limits.pipelined_bytes_max, " bytes"),
      absl::StrCat("streams: socket ", limits.send_buffer_bytes, " bytes, unsent events ",
                   limits.stream_buffer_bytes_max, " bytes, unread for ", limits.stream_stall_s,
                   " s; TCP probes after ", limits.tcp_keepalive_idle_s, " s, ", limits.tcp_keepalive_probes, " x ",
                   limits.tcp_keepalive_interval_s, " s, unacknowledged ", limits.tcp_user_timeout_ms, " ms"),
  };
}

// Bytes for the largest step, whatever the pool will hold: a smaller pool makes scratch smaller.
int64_t WorkspaceBytes(const ModelConfig& model, const WeightPlan& weights, const Sizing& sizing,
                       const DeviceFacts& device) {
  const Limits& limits = sizing.limits;
  ModelExecutorOptions options;
  options.weights = sizing.weights;
  options.adapters = sizing.adapters;
  options.logits_rows_max = sizing.logits_rows_max;
  options.blocks = std::numeric_limits<int32_t>::max();
  options.sequences_max = limits.sequences_max;
  options.batch_tokens_max = limits.batch_tokens_max;
  options.drafts_max = sizing.drafts_max;
  options.context_max = limits.context_max;
  return Transformer::WorkspaceBytes(model, weights, ModelExecutor::LimitsOf(options), device.scratch_bytes,
                                     device.copies);
}

// What a disk gives at the least, for a bound on how long a step may take before it counts as stalled.
constexpr double kDiskBytesPerS = 100e6;

// A limit that holds all weights is none.
absl::Status SizeStream(const Config& config, const WeightPlan& weights, Sizing* sizing) {
  if (config.weights_memory_bytes == 0 || config.weights_memory_bytes >= weights.bytes()) return absl::OkStatus();
  if (config.adapters) {
    return absl::InvalidArgumentError(
        "--weights-memory: adapters (--enable-lora) cannot be had beside weights that are "
        "streamed");
  }
  sizing->stream_bytes = config.weights_memory_bytes;
  // Two readings of everything: a step that was begun just after another may have to wait for both.
  if (!config.origins.contains("engine_stall_s")) {
    sizing->limits.engine_stall_s += 2 * static_cast<double>(weights.bytes()) / kDiskBytesPerS;
  }
  sizing->explanation.push_back(absl::StrCat("weights of ", weights.bytes(), " bytes are streamed through ",
                                             sizing->stream_bytes, " bytes (--weights-memory)"));
  return absl::OkStatus();
}

// Two spare score blocks per block: a ladder of score snapshots for every third cached prefix, or the scores of all who
// share. In bf16 with heads of 64 they are 6 % of the pool.
int32_t SparesPerBlock(const Config& config) { return config.prefix_caching ? 2 : 0; }

// What a block takes with its part of the spare score blocks.
int64_t BlockBytes(const Config& config, const ModelConfig& model, const Sizing& sizing) {
  return static_cast<int64_t>(KvCache::BytesPerBlock(model, sizing.kv_type)) +
         SparesPerBlock(config) * static_cast<int64_t>(KvCache::BytesPerScoreBlock(model));
}

// Memory for a text that is audited (--kv-audit): a context, but no more than a sixteenth of the pool. Where the pool is a share of the
// memory, it is of that share; where it is a number of blocks, it is beside them.
constexpr int32_t kReplayPart = 16;

// Whether the pool is a number of blocks: what is in bytes goes before.
bool CountsBlocks(const Config& config) { return config.blocks_override > 0 && config.kv_cache_memory_bytes == 0; }

int32_t ReplayBlockCount(const Config& config, const Limits& limits, int32_t blocks) {
  if (config.kv_audit == 0) return 0;
  return static_cast<int32_t>(std::min<int64_t>(BlocksForSlots(limits.context_max), std::max(1, blocks / kReplayPart)));
}

// What a flag gives to the pool and what is beside it, of `left_bytes` of a device's memory; 0: no flag says anything.
int64_t AskedPoolBytes(const Config& config, const ModelConfig& model, const Sizing& sizing, int64_t left_bytes) {
  if (config.kv_cache_memory_bytes > 0) return config.kv_cache_memory_bytes;
  if (CountsBlocks(config)) {
    const int64_t replays = ReplayBlockCount(config, sizing.limits, config.blocks_override);
    return (config.blocks_override + replays) * BlockBytes(config, model, sizing);
  }
  return static_cast<int64_t>(static_cast<double>(left_bytes) * config.memory_utilization);
}

// Rows of logits beyond those that any device forms at once are of memory that no flag gives to the pool. Returns the bytes that they
// take.
int64_t SizeLogits(const Config& config, const ModelConfig& model, const DeviceFacts& device, int64_t left_bytes,
                   Sizing* sizing) {
  const int32_t rows_min = sizing->logits_rows_max;
  const int64_t row_bytes = ModelExecutor::LogitsRowBytes(model, device.copies);
  const int64_t rest_bytes = left_bytes - AskedPoolBytes(config, model, *sizing, left_bytes);
  const int64_t fitting = rows_min + std::max<int64_t>(0, rest_bytes) / std::max<int64_t>(row_bytes, 1);
  const int32_t wanted =
      ModelExecutor::LogitsRows(model, device.memory_bytes.value_or(0), sizing->limits.sequences_max, device.copies);
  sizing->logits_rows_max = static_cast<int32_t>(std::min<int64_t>(wanted, fitting));
  return (sizing->logits_rows_max - rows_min) * row_bytes;
}

// All that there is for adapters is taken at the start. The system would rather kill than refuse once they are loaded.
absl::Status CheckAdapters(const Config& config, const ModelConfig& model, const Sizing& sizing, int64_t adapter_bytes,
                           int64_t left_bytes) {
  const bool asked = config.kv_cache_memory_bytes > 0 || config.blocks_override > 0;
  const int64_t pool_bytes = asked ? AskedPoolBytes(config, model, sizing, left_bytes) : 0;
  const int64_t free_bytes = std::max<int64_t>(0, left_bytes - pool_bytes);
  if (adapter_bytes <= free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "--max-loras ", sizing.adapters.slots, " adapters of rank ", sizing.adapters.rank_max, " take ", adapter_bytes,
      " bytes, and ", free_bytes, " are free beside the weights",
      asked ? absl::StrCat(" and a pool of ", pool_bytes, " bytes") : "", "; lower --max-loras or --max-lora-rank"));
}

// What remains of the free memory for KV blocks and for the reserve, and for logits of more rows than any device forms at once.
absl::StatusOr<int64_t> LeftForBlocks(const Config& config, const ModelConfig& model, const WeightPlan& weights,
                                      const DeviceFacts& device, const HostFacts& host, Sizing* sizing) {
  const Limits& limits = sizing->limits;
  const int64_t weight_bytes = sizing->stream_bytes > 0 ? sizing->stream_bytes : weights.bytes();
  const int64_t position_bytes = weights.position_bytes();
  const char* const table = model.position_rows > 0 ? "position table" : "rotary table";
  sizing->logits_rows_max = ModelExecutorOptions().logits_rows_max;
  const int64_t workspace_bytes = WorkspaceBytes(model, weights, *sizing, device);
  const int64_t memory_bytes = device.memory_bytes.value_or(host.available_memory_bytes);
  const int64_t adapter_bytes = AdapterSlots::Bytes(weights, sizing->adapters, device.adapter_bytes);
  const int64_t left_bytes = memory_bytes - weight_bytes - adapter_bytes - workspace_bytes;
  if (adapter_bytes > 0) {
    const absl::Status fits = CheckAdapters(config, model, *sizing, adapter_bytes, left_bytes + adapter_bytes);
    if (!fits.ok()) return fits;
  }
  // A small file may claim millions of positions; the system would rather kill than refuse.
  if (left_bytes >= 0 && position_bytes > left_bytes) {
    return absl::FailedPreconditionError(absl::StrCat("a ", table, " of ", limits.context_max, " positions takes ",
                                                      position_bytes, " bytes, and ", left_bytes,
                                                      " are free beside the weights; set a smaller --max-model-len"));
  }
  const int64_t free_bytes = std::max<int64_t>(0, left_bytes - position_bytes);
  if (device.copies > 1) {
    sizing->explanation.push_back(absl::StrCat(device.copies,
                                               " ranks: bytes are of all together, with the copies that ",
                                               "each has of tables and of what it computes with"));
  }
  sizing->explanation.push_back(absl::StrCat("weights ", sizing->weight_formats, ", KV ", KvTypeName(sizing->kv_type),
                                             ", context ", limits.context_max));
  sizing->explanation.push_back(
      absl::StrCat(device.memory_bytes.has_value() ? "device memory " : "memory ", memory_bytes, " bytes free - ",
                   weight_bytes, " weights - ", adapter_bytes > 0 ? absl::StrCat(adapter_bytes, " adapters - ") : "",
                   workspace_bytes, " workspace of a step - ", position_bytes, " ", table, " = ", free_bytes, " left"));
  return free_bytes;
}

// Sequences that step aside do so into host memory beside the pool, which is theirs from the start.
absl::Status SizeSwaps(const Config& config, int64_t block_bytes, int64_t left_bytes, Sizing* sizing) {
  if (config.swap_space_gib == 0) return absl::OkStatus();
  const double bytes = config.swap_space_gib * static_cast<double>(int64_t{1} << 30);
  const double most = static_cast<double>(std::max<int64_t>(0, left_bytes));
  if (bytes > most) {
    return absl::ResourceExhaustedError(absl::StrCat("--swap-space ", config.swap_space_gib, " GiB: only ",
                                                     std::max<int64_t>(0, left_bytes),
                                                     " bytes of host memory are left beside the pool"));
  }
  sizing->limits.swap_blocks = static_cast<int64_t>(bytes) / block_bytes;
  if (sizing->limits.swap_blocks == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--swap-space ", config.swap_space_gib, " GiB: holds no block of ", block_bytes, " bytes"));
  }
  sizing->explanation.push_back(absl::StrCat("swap space ", sizing->limits.swap_blocks,
                                             " blocks = ", sizing->limits.swap_blocks * kBlockSlots,
                                             " slots: requests reserve what they need soon (--swap-space)"));
  return absl::OkStatus();
}

// What sessions leave between their turns is kept beside the pool, in host memory that is taken as it is needed. By default
// it is as much as the pool, and at most half of what is left.
void SizeParked(const Config& config, int64_t block_bytes, int64_t left_bytes, Sizing* sizing) {
  Limits& limits = sizing->limits;
  const int64_t half = std::max<int64_t>(0, left_bytes / 2 / block_bytes);
  limits.parked_blocks = config.session_memory_bytes.has_value() ? *config.session_memory_bytes / block_bytes
                                                                 : std::min<int64_t>(limits.blocks, half);
  sizing->explanation.push_back(absl::StrCat(
      "sessions: parked KV up to ", limits.parked_blocks * block_bytes, " bytes (",
      config.session_memory_bytes.has_value() ? "--session-memory-bytes" : "as the pool, or half of what is left",
      "), at most ", limits.sessions_max, " of ", limits.session_bytes_max, " bytes of tokens and text, kept for ",
      limits.session_ttl_s, " s"));
}

// The pool's part of the memory that is left, where nobody says another one: a machine has other work, a GPU mostly not, but
// its graphs and its library take some.
constexpr double kHostShare = 0.25, kDeviceShare = 0.9;

absl::Status SizeReplays(const Config& config, int64_t free_bytes, Sizing* sizing) {
  if (config.kv_audit == 0) return absl::OkStatus();
  int32_t& blocks = sizing->limits.blocks;
  sizing->replay_blocks = ReplayBlockCount(config, sizing->limits, blocks);
  const int64_t fit = free_bytes / sizing->block_bytes, all = int64_t{blocks} + sizing->replay_blocks;
  if (!CountsBlocks(config)) {
    blocks = std::max(1, blocks - sizing->replay_blocks);
  } else if (blocks <= fit && all > fit) {
    return absl::ResourceExhaustedError(absl::StrCat("--kv-audit takes ", sizing->replay_blocks, " blocks beside the ",
                                                     blocks, " of --num-gpu-blocks-override: together ",
                                                     all * sizing->block_bytes, " bytes, and ", free_bytes,
                                                     " are left for them"));
  }
  sizing->explanation.push_back(absl::StrCat("--kv-audit: ", sizing->replay_blocks,
                                             " blocks beside the pool, for texts of ",
                                             ReplayTokensMax(sizing->replay_blocks), " tokens at most"));
  return absl::OkStatus();
}

// Sets the pool's limits and says where they come from. What a flag says is of `free_bytes`; else `logits_bytes` are not the pool's.
absl::Status SizePool(const Config& config, const ModelConfig& model, int64_t free_bytes, int64_t logits_bytes,
                      const DeviceFacts& device, const HostFacts& host, Sizing* sizing) {
  const int32_t spares = SparesPerBlock(config);
  sizing->score_block_bytes = static_cast<int64_t>(KvCache::BytesPerScoreBlock(model));
  sizing->kv_block_bytes = static_cast<int64_t>(KvCache::BytesPerBlock(model, sizing->kv_type));
  const int64_t block_bytes = sizing->block_bytes = BlockBytes(config, model, *sizing);
  int64_t budget_bytes = 0;
  int64_t blocks = 0;
  std::string source;
  if (config.kv_cache_memory_bytes > 0) {
    budget_bytes = config.kv_cache_memory_bytes;
    source = "--kv-cache-memory-bytes";
  } else if (config.blocks_override > 0) {
    blocks = config.blocks_override;
    source = "--num-gpu-blocks-override";
  } else {
    const double usual = device.memory_bytes.has_value() ? kDeviceShare : kHostShare;
    const bool asked = config.memory_utilization > 0;
    const double share = asked ? config.memory_utilization : usual;
    const int64_t of_bytes = asked ? free_bytes : free_bytes - logits_bytes;
    budget_bytes = static_cast<int64_t>(static_cast<double>(of_bytes) * share);
    source = absl::StrCat(asked ? "--gpu-memory-utilization " : "default ", share, " of ", of_bytes,
                          " bytes that are left; the rest is the reserve");
  }
  if (blocks == 0) blocks = budget_bytes / block_bytes;
  if (blocks < 1) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV cache: ", budget_bytes, " bytes (", source, ") hold no block of ", block_bytes, " bytes"));
  }
  // Slots are counted in 32 bits.
  const int64_t blocks_max = std::numeric_limits<int32_t>::max() / kBlockSlots / (1 + spares);
  sizing->limits.blocks = static_cast<int32_t>(std::min(blocks, blocks_max));
  if (absl::Status status = SizeReplays(config, free_bytes, sizing); !status.ok()) return status;
  sizing->limits.spare_score_blocks = spares * sizing->limits.blocks;
  sizing->explanation.push_back(
      absl::StrCat("KV block ", block_bytes, " bytes = ", model.layers, " layers x ", model.kv_heads, " heads x ",
                   kBlockSlots, " slots x (2 x ", model.head_dim, " x ", KvElementBytes(sizing->kv_type),
                   KvScaleBytes(sizing->kv_type) > 0 ? " + 2 x 4" : "", " + 8 x ", 1 + spares, ")"));
  sizing->explanation.push_back(absl::StrCat("KV pool ", sizing->limits.blocks,
                                             " blocks = ", int64_t{sizing->limits.blocks} * kBlockSlots, " slots, ",
                                             int64_t{sizing->limits.blocks} * block_bytes, " bytes (", source, ")"));
  const int64_t outside_bytes = sizing->kv_block_bytes;
  const int64_t left_bytes = device.memory_bytes.has_value()
                                 ? host.available_memory_bytes
                                 : free_bytes - (int64_t{sizing->limits.blocks} + sizing->replay_blocks) * block_bytes;
  if (absl::Status status = SizeSwaps(config, outside_bytes, left_bytes, sizing); !status.ok()) return status;
  SizeParked(config, outside_bytes, left_bytes - sizing->limits.swap_blocks * outside_bytes, sizing);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Sizing> DeriveLimits(const Config& config, const ModelConfig& model, const WeightPlanner& plan_weights,
                                    const DeviceFacts& device, const HostFacts& host) {
  Sizing sizing;
  sizing.drafts_max = DraftsPerStep(config.drafts);
  sizing.limits = config.limits;
  Limits& limits = sizing.limits;

  sizing.weights = ChooseWeights(config, model);
  // The cache follows the weights: a model that was trained in bf16 loses nothing by it.
  sizing.kv_type = config.kv_type.value_or(KvTypeOf(sizing.weights.expanded));

  if (config.adapters) {
    sizing.adapters = {.slots = config.adapters_max,
                       .rank_max = config.adapter_rank_max,
                       .dtype = AdapterLimits::DTypeFor(sizing.weights)};
  }

  limits.context_max = config.max_model_len > 0 ? config.max_model_len : model.context;
  if (limits.context_max > model.context) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-model-len ", limits.context_max, ": the model has ", model.context, " positions"));
  }
  limits.sequences_max = config.sequences_max;
  limits.batch_tokens_max = config.batch_tokens_max;
  // One block of prefill must fit beside a decode of every sequence.
  const int32_t batch_tokens_min = limits.sequences_max + kBlockSlots - 1;
  if (limits.batch_tokens_max < batch_tokens_min) {
    return absl::InvalidArgumentError(absl::StrCat("--max-num-batched-tokens ", limits.batch_tokens_max,
                                                   ": must be at least ", batch_tokens_min, " with --max-num-seqs ",
                                                   limits.sequences_max));
  }

  const WeightPlan weights = plan_weights(sizing.weights, limits.context_max);
  sizing.weight_formats = weights.Formats();
  sizing.weight_bytes = weights.BytesByFormat();
  if (absl::Status status = SizeStream(config, weights, &sizing); !status.ok()) return status;
  const absl::StatusOr<int64_t> free_bytes = LeftForBlocks(config, model, weights, device, host, &sizing);
  if (!free_bytes.ok()) return free_bytes.status();

  const int64_t logits_bytes = SizeLogits(config, model, device, *free_bytes, &sizing);
  if (logits_bytes > 0) {
    sizing.explanation.push_back(
        absl::StrCat("logits of ", sizing.logits_rows_max, " rows at once: ", logits_bytes, " bytes of what is left"));
  }
  if (absl::Status status = SizePool(config, model, *free_bytes, logits_bytes, device, host, &sizing); !status.ok()) {
    return status;
  }

  const int64_t files = FilesPerConnection(config);
  const int64_t other_files = kOtherFiles + ConnectionTable::kSpare + (files > 1 ? kKvFiles : 0);
  const int64_t connections = std::max<int64_t>(1, (host.open_files_max - other_files) / files);
  limits.connections_max = static_cast<int32_t>(std::min<int64_t>(limits.connections_max, connections));

  const auto explain = [&sizing](std::string line) { sizing.explanation.push_back(std::move(line)); };
  for (std::string& line : Describe(limits)) explain(std::move(line));
  explain(absl::StrCat("connections ", limits.connections_max, " (", host.open_files_max, " files - ", other_files,
                       files > 1 ? ", a connection and a turn's KV each)" : ")"));
  if (int64_t{limits.blocks} * kBlockSlots < limits.context_max) {
    sizing.warnings.push_back(
        "the pool holds less than one full context: long requests without a budget will be refused");
  }
  if (model.rope_is_long(limits.context_max)) {
    sizing.warnings.push_back(absl::StrCat("short texts, too, are rotated as this model rotates those longer than ",
                                           model.rope_short_context, " tokens; --max-model-len ",
                                           model.rope_short_context, " serves short ones as they were trained"));
  }
  return sizing;
}

std::string DescribeRoom(const Limits& limits) {
  const int64_t tokens = int64_t{limits.blocks} * kBlockSlots;
  return absl::StrCat("KV pool of ", limits.blocks, " blocks = ", tokens, " tokens, ", tokens / limits.context_max,
                      " full contexts; ", limits.parked_blocks * kBlockSlots, " tokens of parked sessions beside it; ",
                      limits.sequences_max, " sequences at once");
}

}  // namespace hydrant
