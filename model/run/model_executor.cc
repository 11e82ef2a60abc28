#include "model/run/model_executor.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/exported_block.h"

namespace hydrant {
namespace {

// A hundredth of a device's memory for logits: of 128,256 tokens and 4,096 inputs 486 rows of 24 GiB, 512 and more of 80 GB.
constexpr int64_t kLogitsShare = 100;

KvCacheLayout MakeLayout(const ModelConfig& config, const ModelExecutorOptions& options) {
  return KvCacheLayout{.layers = config.layers,
                       .blocks = options.blocks,
                       .kv_heads = config.kv_heads,
                       .head_dim = config.head_dim,
                       .type = options.kv_type,
                       .state_rows = options.sequences_max,
                       .spare_score_blocks = options.spare_score_blocks,
                       .inspected = options.dump != nullptr};
}

struct Tables {
  std::span<const int32_t> blocks;
  std::span<const int32_t> score_blocks;
};

// What the row's tables are once its copies are made. Copied tables are appended to `storage`, which does not move.
Tables TablesAfterCopies(const StepRow& row, std::vector<int32_t>* storage) {
  if (row.copies.empty()) return {row.block_table, row.score_table};
  const size_t begin = storage->size(), count = row.block_table.size();
  assert(row.score_table.size() == count && storage->capacity() - begin >= 2 * count);
  storage->insert(storage->end(), row.block_table.begin(), row.block_table.end());
  storage->insert(storage->end(), row.score_table.begin(), row.score_table.end());
  const std::span<int32_t> blocks = std::span(*storage).subspan(begin, count);
  const std::span<int32_t> score_blocks = std::span(*storage).subspan(begin + count, count);
  // Copies are of the table's first blocks, in order.
  for (size_t i = 0; i < row.copies.size(); ++i) {
    assert(blocks[i] == row.copies[i].from);
    blocks[i] = score_blocks[i] = row.copies[i].to;
  }
  return {blocks, score_blocks};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelExecutor>> ModelExecutor::Create(const Checkpoint& checkpoint, Device& device,
                                                                     const ModelExecutorOptions& options) {
  assert(options.blocks > 0 && options.sequences_max > 0 && options.batch_tokens_max > 0 && options.context_max > 0);
  try {
    WeightPlan plan = PlanWeights(checkpoint, device, options.weights, options.context_max);
    plan.balance_keys = options.kv_type == KvType::kInt8;
    Weights weights;
    if (options.stream.memory_bytes > 0) {
      absl::StatusOr<Weights> streamed = StreamWeights(checkpoint, device, plan, options.stream, options.on_load);
      if (!streamed.ok()) return streamed.status();
      weights = *std::move(streamed);
    } else {
      weights = LoadWeights(checkpoint, device, plan, options.on_load);
    }
    return std::unique_ptr<ModelExecutor>(new ModelExecutor(checkpoint.config, std::move(weights), device, options));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "not enough memory for the weights, ", options.blocks, " KV blocks", options.swap_blocks > 0 ? " and " : "",
        options.swap_blocks > 0 ? absl::StrCat(options.swap_blocks, " swapped ones") : "", " of ",
        KvCache::BytesPerBlock(checkpoint.config, options.kv_type), " bytes; lower --kv-cache-memory-bytes"));
  }
}

int64_t ModelExecutor::LogitsRowBytes(const ModelConfig& config, int64_t copies) {
  return copies * (int64_t{config.vocab} + config.hidden) * static_cast<int64_t>(sizeof(float));
}

int32_t ModelExecutor::LogitsRows(const ModelConfig& config, int64_t device_memory_bytes, int32_t sequences_max,
                                  int64_t copies) {
  const int64_t fitting = device_memory_bytes / kLogitsShare / std::max<int64_t>(LogitsRowBytes(config, copies), 1);
  return static_cast<int32_t>(
      std::max<int64_t>(ModelExecutorOptions().logits_rows_max, std::min<int64_t>(fitting, sequences_max)));
}

Transformer::Limits ModelExecutor::LimitsOf(const ModelExecutorOptions& options) {
  return {
      .tokens_max = options.batch_tokens_max + options.drafts_max,
      .rows_max = options.sequences_max,
      .drafts_max = options.drafts_max,
      .slots_max = static_cast<int32_t>(std::min<int64_t>(options.context_max, int64_t{options.blocks} * kBlockSlots)),
      .logits_rows_max = options.logits_rows_max,
      .adapters = {.slots = options.adapters.slots,
                   .rank_max = options.adapters.rank_max,
                   .dtype = AdapterLimits::DTypeFor(options.weights)}};
}

ModelExecutor::ModelExecutor(const ModelConfig& config, Weights weights, Device& device,
                             const ModelExecutorOptions& options)
    : config_(config),
      options_(options),
      device_(device),
      kv_cache_(device, MakeLayout(config, options)),
      transformer_(config, std::move(weights), device, LimitsOf(options)),
      swapped_(options.swap_blocks, kv().layout.block_bytes(), kv().layout.state_bytes()) {
  assert(options.drafts_max == 0 || device.TakesDrafts());
  token_ids_.reserve(static_cast<size_t>(options.batch_tokens_max + options.drafts_max));
  rows_.reserve(static_cast<size_t>(options.sequences_max));
  shrinks_.reserve(static_cast<size_t>(options.sequences_max));
}

Executor::Ticket ModelExecutor::Launch(const StepInput& input) {
  assert(launched_ - awaited_ < kStepsInFlight);
  InFlightStep& flight = flights_[launched_ % kStepsInFlight];
  flight.input = &input;
  flight.output.rows.clear();
  flight.output.park_failures.clear();
  flight.output.swap_failures.clear();
  flight.output.left_out = false;
  flight.output.restore_us = 0;
  flight.logits_requests.clear();
  flight.sample = 0;
  QueueLayers(input, &flight);
  return Ticket{++launched_};
}

void ModelExecutor::Sample(Ticket ticket, std::span<const LogitAdjustments* const> adjustments) {
  assert(ticket.number == launched_ && launched_ > awaited_);
  InFlightStep& flight = flights_[(launched_ - 1) % kStepsInFlight];
  try {
    QueueSample(adjustments, &flight);
  } catch (const std::bad_alloc&) {
    // The device may still write results of this step, into memory that the next step's results would use.
    if (flight.sample != 0) device_.AwaitSample(flight.sample);
    --launched_;
    throw;
  }
}

void ModelExecutor::QueueLayers(const StepInput& input, InFlightStep* flight) {
  MoveOut(input, &flight->output);
  MoveIn(input, &flight->output);
  for (const ReadOp& read : input.reads) Read(read);
  if (input.rows.empty()) return;
  assert(input.reads.empty());
  FlattenRows(input);
  if (!input.score_inits.empty()) device_.InitScores(input.score_inits, kv_cache_.view());
  const StepBatch batch{.token_ids = token_ids_, .rows = rows_};
  flight->output.left_out = !transformer_.Forward(batch, kv_cache_.view(), input.overtaken);
}

void ModelExecutor::QueueSample(std::span<const LogitAdjustments* const> adjustments, InFlightStep* flight) {
  const StepInput& input = *flight->input;
  assert(!input.rows.empty());
  if (flight->output.left_out) return;
  CollectLogitsRequests(adjustments, flight);
  SampleTiles(flight);
  PoolStates(input);
  MeasureLosses(input, &flight->output);
  CopyAfterForward(input);
  CutAfterForward(input);
  if (options_.dump != nullptr) {
    for (const StepRow& row : input.rows) DumpRow(row);
  }
}

StepOutput ModelExecutor::Await(Ticket ticket) {
  assert(ticket.number == awaited_ + 1);
  InFlightStep& flight = flights_[awaited_ % kStepsInFlight];
  awaited_ = ticket.number;
  if (flight.sample != 0) device_.AwaitSample(flight.sample);
  for (size_t i = 0; i < flight.logits_requests.size(); ++i)
    *flight.logits_requests[i].result = std::move(flight.results[i]);
  return std::move(flight.output);
}

// Takes the memory for all of it.
void ModelExecutor::BeginPark(const ParkOp& park) {
  const KvCacheView& view = kv_cache_.view();
  parked_.Put(park.id, static_cast<size_t>(BlocksForSlots(park.live)) * view.layout.block_bytes(), park.computed,
              park.live);
  if (park.cut_from == 0) return;
  const ShrinkOp cut{.live_from = park.cut_from,
                     .live_to = park.live,
                     .logical_length = park.computed,
                     .policy = *park.policy,
                     .block_table = park.block_table,
                     .score_table = park.score_table};
  device_.Shrink({&cut, 1}, view);
}

void ModelExecutor::CopySlice(const ParkOp& park) {
  if (park.slice.size() == 0) return;
  const KvCacheView& view = kv_cache_.view();
  const auto begin = static_cast<size_t>(park.slice.begin), size = static_cast<size_t>(park.slice.size());
  const std::span<std::byte> to = parked_.Write(park.id).subspan(begin * view.layout.block_bytes());
  device_.ExportBlocks(park.block_table.subspan(begin, size), park.score_table.subspan(begin, size), view, to.data());
  // ExportBlocks has waited for what was queued, and for the copy itself.
  if (park.slice.end < BlocksForSlots(park.live)) return;
  // It may go to the disk, and what others left in the last block is not the session's.
  const int32_t used = park.live % kBlockSlots;
  const bool cleared = used == 0 || ClearSlots(device_.kv_format(), view.layout, used,
                                               to.data() + (size - 1) * view.layout.block_bytes());
  assert(cleared);
  static_cast<void>(cleared);
  parked_.SetWhole(park.id);
}

bool ModelExecutor::Adopt(const TurnId& turn, const KvBytes& parked) {
  parked_.Drop(turn);
  const auto blocks = static_cast<size_t>(BlocksForSlots(parked.live));
  if (parked.empty() || parked.live < 1 || parked.size != blocks * kv().layout.block_bytes()) return false;
  try {
    parked_.Adopt(turn, parked);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Those that begin and find no memory fail alone. What comes after may need a little memory for itself: without it none
// of them is parked that was to begin.
void ModelExecutor::Park(std::span<const ParkOp> parks, std::vector<TurnId>* failures) {
  failures->reserve(parks.size());
  for (const ParkOp& park : parks) {
    if (!park.begins) continue;
    try {
      BeginPark(park);
    } catch (const std::bad_alloc&) {
      parked_.Drop(park.id);
      failures->push_back(park.id);
    }
  }
  for (const ParkOp& park : parks) {
    if (!park.begins || parked_.has(park.id)) CopySlice(park);
  }
}

// All slots leave as they are, in their order, and with them the state row.
void ModelExecutor::SwapOut(std::span<const SwapOutOp> swaps, std::vector<uint64_t>* failures) {
  const KvCacheView& view = kv_cache_.view();
  failures->reserve(swaps.size());
  for (const SwapOutOp& swap : swaps) {
    if (!swap.begins) continue;
    try {
      swapped_.Put(swap.id, static_cast<int32_t>(BlocksForSlots(swap.live)));
    } catch (const std::bad_alloc&) {
      failures->push_back(swap.id);
      continue;
    }
    device_.ExportState(swap.state_row, view, swapped_.State(swap.id).data());
  }
  for (const SwapOutOp& swap : swaps) {
    if (!swapped_.has(swap.id)) continue;
    const std::span<const int32_t> score_blocks = swap.score_table.empty() ? swap.block_table : swap.score_table;
    swapped_.ForBlocks(swap.id, swap.slice, [&](BlockSlice part, std::byte* to) {
      const auto begin = static_cast<size_t>(part.begin), size = static_cast<size_t>(part.size());
      device_.ExportBlocks(swap.block_table.subspan(begin, size), score_blocks.subspan(begin, size), view, to);
    });
  }
}

void ModelExecutor::MoveOut(const StepInput& input, StepOutput* output) {
  for (const TurnId& turn : input.drops) parked_.Drop(turn);
  for (const uint64_t id : input.swap_drops) swapped_.Drop(id);
  try {
    if (!input.parks.empty()) Park(input.parks, &output->park_failures);
    if (!input.swap_outs.empty()) SwapOut(input.swap_outs, &output->swap_failures);
  } catch (const std::bad_alloc&) {
    for (const ParkOp& park : input.parks) {
      if (park.begins) parked_.Drop(park.id);
    }
    for (const SwapOutOp& swap : input.swap_outs) {
      if (swap.begins) swapped_.Drop(swap.id);
    }
    throw;
  }
}

void ModelExecutor::MoveIn(const StepInput& input, StepOutput* output) {
  if (input.restores.empty() && input.swap_ins.empty()) return;
  const auto begin = std::chrono::steady_clock::now();
  Restore(input.restores);
  SwapIn(input.swap_ins);
  const auto time = std::chrono::steady_clock::now() - begin;
  output->restore_us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

void ModelExecutor::Restore(std::span<const RestoreOp> restores) {
  const KvCacheView& view = kv_cache_.view();
  for (const RestoreOp& restore : restores) {
    const std::span<const std::byte> parked = parked_.Read(restore.id);
    assert(parked.size() == restore.block_table.size() * view.layout.block_bytes());
    const double decay = restore.policy->scores() ? restore.policy->prompt_decay() : 1.0;
    const auto begin = static_cast<size_t>(restore.slice.begin), size = static_cast<size_t>(restore.slice.size());
    device_.ImportBlocks(restore.block_table.subspan(begin, size), static_cast<float>(std::pow(decay, restore.rows)),
                         view, parked.subspan(begin * view.layout.block_bytes()).data());
    if (restore.cut_to == 0) continue;
    ShrinkOp cut{.live_from = restore.live,
                 .live_to = restore.cut_to,
                 .logical_length = restore.computed,
                 .policy = *restore.policy,
                 .block_table = restore.block_table};
    assert(restore.cut_to >= cut.policy.heavy);
    cut.policy.recent = restore.cut_to - cut.policy.heavy;
    device_.Shrink({&cut, 1}, view);
  }
}

// Scores come back as they left: no row of the sequence was computed meanwhile.
void ModelExecutor::SwapIn(std::span<const SwapInOp> swaps) {
  const KvCacheView& view = kv_cache_.view();
  for (const SwapInOp& swap : swaps) {
    swapped_.ForBlocks(swap.id, swap.slice, [&](BlockSlice part, const std::byte* from) {
      const auto begin = static_cast<size_t>(part.begin), size = static_cast<size_t>(part.size());
      device_.ImportBlocks(swap.block_table.subspan(begin, size), /*score_factor=*/1.0f, view, from);
    });
    if (!swap.ends()) continue;
    device_.ImportState(swap.state_row, view, swapped_.State(swap.id).data());
    swapped_.Drop(swap.id);
  }
}

// A score block is one piece of each array, so this is two copies for 16 slots of all layers and heads.
void ModelExecutor::Read(const ReadOp& read) {
  const KvCacheView& view = kv_cache_.view();
  const KvCacheLayout& layout = view.layout;
  KvScores& out = *read.out;
  out.blocks = static_cast<int32_t>(BlocksForSlots(read.live));
  out.logical = layout.inspected;
  const size_t slots = static_cast<size_t>(layout.layers) * static_cast<size_t>(layout.kv_heads) * kBlockSlots;
  const size_t bytes = slots * sizeof(float), total = slots * static_cast<size_t>(out.blocks);
  if (out.scores.size() < total) out.scores.resize(total);
  if (out.positions.size() < total) out.positions.resize(total);
  const std::byte* parked = read.score_blocks.empty() ? parked_.Read(read.parked).data() : nullptr;
  const int32_t* from = layout.inspected ? view.logical_position : view.position;
  for (size_t i = 0; i < static_cast<size_t>(out.blocks); ++i) {
    float* scores = out.scores.data() + i * slots;
    int32_t* positions = out.positions.data() + i * slots;
    if (parked == nullptr) {
      const int64_t beside = layout.score_offset(0, read.score_blocks[i], 0);
      device_.CopyToHost(scores, view.score + beside, bytes);
      device_.CopyToHost(positions, from + beside, bytes);
    } else {
      // A parked block ends with its pieces beside K and V (kernels/kv_pieces.h), of which the logical positions are last.
      const std::byte* beside = parked + (i + 1) * layout.block_bytes() - layout.score_block_bytes();
      std::memcpy(scores, beside, bytes);
      std::memcpy(positions, beside + (layout.inspected ? 2 : 1) * bytes, bytes);
    }
    // The sign of a score is a pin (kernels/eviction_policy.h).
    std::transform(scores, scores + slots, scores, [](float score) { return std::abs(score); });
  }
}

void ModelExecutor::FlattenRows(const StepInput& input) {
  token_ids_.clear();
  rows_.clear();
  int32_t drafts = 0;
  for (const StepRow& row : input.rows) {
    BatchRow& to = rows_.emplace_back();
    static_cast<RowCounts&>(to) = row;
    static_cast<RowTables&>(to) = row;
    to.token_begin = static_cast<int32_t>(token_ids_.size());
    to.token_count = static_cast<int32_t>(row.tokens.size());
    to.draft_begin = drafts;
    drafts += row.drafts();
    to.policy = *row.policy;
    to.snapshots = row.snapshots;
    to.segment_starts = row.segment_starts;
    assert(to.position_of(to.token_count - 1) < options_.context_max);
    token_ids_.insert(token_ids_.end(), row.tokens.begin(), row.tokens.end());
  }
  assert(drafts <= options_.drafts_max);
}

void ModelExecutor::KeepDrafts(std::span<const int32_t> kept) {
  assert(kept.size() == rows_.size());
  device_.KeepDrafts(rows_, kept, kv_cache_.view());
}

void ModelExecutor::CollectLogitsRequests(std::span<const LogitAdjustments* const> adjustments, InFlightStep* flight) {
  const StepInput& input = *flight->input;
  assert(adjustments.empty() || adjustments.size() == input.rows.size());
  std::vector<LogitsRequest>& logits_requests = flight->logits_requests;
  flight->output.rows.assign(input.rows.size(), RowOutput{});
  for (size_t i = 0; i < input.rows.size(); ++i) {
    const StepRow& row = input.rows[i];
    const BatchRow& batch_row = rows_[i];
    RowOutput& out = flight->output.rows[i];
    out.targets.resize(row.targets.size());
    for (size_t t = 0; t < row.targets.size(); ++t) {
      logits_requests.push_back(LogitsRequest{
          .token_index = batch_row.token_begin + static_cast<int32_t>(t),
          .request = {.scored_id = row.targets[t], .logprobs = row.target_logprobs, .rank = row.target_ranks},
          .result = &out.targets[t]});
    }
    if (!row.sample) continue;
    if (row.drafts() > 0) {
      CollectDrafts(row, batch_row, &out, flight);
      continue;
    }
    const int32_t last = batch_row.token_begin + batch_row.token_count - 1;
    logits_requests.push_back(LogitsRequest{.token_index = last,
                                            .request = {.params = row.sampling,
                                                        .adjustments = adjustments.empty() ? nullptr : adjustments[i],
                                                        .position = row.position + batch_row.token_count,
                                                        .scored_id = row.forced_id,
                                                        .logprobs = row.logprobs,
                                                        .state_row = row.state_row,
                                                        .stop_ids = row.stop_ids},
                                            .result = &out.sampled});
  }
}

// Draws depend on the key and the position alone, so each is what it would be in a step of its own. Which one is the last that
// counts is not known yet, so none is kept for the state row.
void ModelExecutor::CollectDrafts(const StepRow& row, const BatchRow& batch_row, RowOutput* out, InFlightStep* flight) {
  out->drafts.resize(static_cast<size_t>(row.drafts()));
  for (int32_t i = 0; i < batch_row.token_count; ++i) {
    flight->logits_requests.push_back(
        LogitsRequest{.token_index = batch_row.token_begin + i,
                      .request = {.params = row.sampling, .position = row.position + i + 1, .logprobs = row.logprobs},
                      .result = i == 0 ? &out->sampled : &out->drafts[static_cast<size_t>(i) - 1]});
  }
}

void ModelExecutor::SampleTiles(InFlightStep* flight) {
  const std::vector<LogitsRequest>& logits_requests = flight->logits_requests;
  flight->results.assign(logits_requests.size(), SampleResult{});
  const size_t count = logits_requests.size(), most = static_cast<size_t>(options_.logits_rows_max);
  const size_t tiles = std::max<size_t>(1, (count + most - 1) / most), tile = (count + tiles - 1) / tiles;
  for (size_t begin = 0; begin < logits_requests.size(); begin += tile) {
    const size_t end = std::min(logits_requests.size(), begin + tile);
    logits_indices_.clear();
    requests_.clear();
    for (size_t i = begin; i < end; ++i) {
      logits_indices_.push_back(logits_requests[i].token_index);
      requests_.push_back(logits_requests[i].request);
      requests_.back().logits_row = static_cast<int32_t>(i - begin);
    }
    // A device may choose the product by the number of rows: it has to be the same one for all tokens of a step.
    logits_indices_.resize(tile, logits_indices_.back());
    flight->sample = device_.Sample(transformer_.Logits(logits_indices_), requests_,
                                    std::span(flight->results).subspan(begin, end - begin));
  }
  // A step that samples nothing takes its time as well.
  if (logits_requests.empty()) flight->sample = device_.Sample({}, {}, {});
}

// In tiles as large as those of logits, token by token in the order of each prompt. Waits for the device: whoever asks wants nothing
// that could be computed meanwhile.
void ModelExecutor::PoolStates(const StepInput& input) {
  logits_indices_.clear();
  pools_.clear();
  const auto flush = [this] {
    if (pools_.empty()) return;
    const Matrix states = transformer_.States(logits_indices_);
    const auto cols = static_cast<size_t>(states.cols);
    states_.resize(pools_.size() * cols);
    device_.CopyToHost(states_.data(), states.data, states_.size() * sizeof(float));
    for (size_t i = 0; i < pools_.size(); ++i) pools_[i]->Add(std::span(states_).subspan(i * cols, cols));
    logits_indices_.clear();
    pools_.clear();
  };
  for (size_t i = 0; i < input.rows.size(); ++i) {
    const StepRow& row = input.rows[i];
    if (row.states == nullptr) continue;
    const int32_t begin = rows_[i].token_begin, end = begin + rows_[i].token_count;
    const bool ends_prompt = row.position + rows_[i].token_count == row.prompt_length;
    const bool takes_all = row.states->pooling() == Pooling::kMean;
    for (int32_t token = takes_all ? begin : ends_prompt ? end - 1 : end; token < end; ++token) {
      logits_indices_.push_back(token);
      pools_.push_back(row.states.get());
      if (std::ssize(pools_) == options_.logits_rows_max) flush();
    }
  }
  flush();
}

void ModelExecutor::MeasureLosses(const StepInput& input, StepOutput* output) {
  losses_.clear();
  for (size_t i = 0; i < input.rows.size(); ++i) {
    const StepRow& row = input.rows[i];
    if (row.losses.cuts == 0) continue;
    std::vector<float>& losses = output->rows[i].losses;
    losses.resize(static_cast<size_t>(row.losses.cuts));
    losses_.push_back({.live = rows_[i].live_after(),
                       .logical_length = row.position + static_cast<int32_t>(row.tokens.size()),
                       .keep_max = row.losses.keep_max,
                       .policy = *row.losses.policy,
                       .block_table = row.block_table,
                       .score_table = row.score_table,
                       .losses = losses});
  }
  if (!losses_.empty()) device_.MeasureLosses(losses_, kv_cache_.view());
}

void ModelExecutor::CopyAfterForward(const StepInput& input) {
  copies_.clear();
  for (const StepRow& row : input.rows) copies_.insert(copies_.end(), row.copies.begin(), row.copies.end());
  if (!copies_.empty()) device_.CopyBlocks(copies_, kv_cache_.view());
}

void ModelExecutor::CutAfterForward(const StepInput& input) {
  shrinks_.clear();
  cut_tables_.clear();
  size_t entries = 0;
  for (const StepRow& row : input.rows) entries += row.shrink_to > 0 ? 2 * row.block_table.size() : 0;
  cut_tables_.reserve(entries);
  for (size_t i = 0; i < input.rows.size(); ++i) {
    const StepRow& row = input.rows[i];
    if (row.shrink_to == 0) continue;
    const int32_t computed = row.position + static_cast<int32_t>(row.tokens.size());
    const auto [blocks, score_blocks] = TablesAfterCopies(row, &cut_tables_);
    shrinks_.push_back(ShrinkOp{.live_from = rows_[i].live_after(),
                                .live_to = row.shrink_to,
                                .logical_length = computed,
                                .prompt_cut = row.prefill && computed == row.prompt_length,
                                .policy = *row.policy,
                                .block_table = blocks,
                                .score_table = score_blocks});
  }
  if (!shrinks_.empty()) device_.Shrink(shrinks_, kv_cache_.view());
}

void ModelExecutor::DumpRow(const StepRow& row) {
  const int32_t live_after =
      row.shrink_to > 0 ? row.shrink_to : row.slots_with(static_cast<int32_t>(row.tokens.size()));
  if (row.prefill) {
    const bool prompt_done = row.position + static_cast<int32_t>(row.tokens.size()) == row.prompt_length;
    if (!prompt_done) return;
    KvDumpSink::Positions kept(static_cast<size_t>(config_.layers));
    for (int32_t layer = 0; layer < config_.layers; ++layer) {
      for (int32_t head = 0; head < config_.kv_heads; ++head) {
        std::vector<int32_t> positions = LivePositions(row, live_after, layer, head);
        std::sort(positions.begin(), positions.end());
        kept[static_cast<size_t>(layer)].push_back(std::move(positions));
      }
    }
    options_.dump->OnPromptDone(row.state_row, std::move(kept));
    return;
  }
  if (!row.choose_victim) {
    options_.dump->OnDecode(row.state_row, std::nullopt);
    return;
  }
  const KvCacheView& view = kv_cache_.view();
  std::vector<std::vector<int32_t>> victims(static_cast<size_t>(config_.layers));
  std::vector<int32_t> slots(static_cast<size_t>(config_.layers * config_.kv_heads));
  device_.CopyToHost(slots.data(), view.victim + static_cast<size_t>(row.state_row) * slots.size(),
                     slots.size() * sizeof(int32_t));
  for (int32_t layer = 0; layer < config_.layers; ++layer) {
    for (int32_t head = 0; head < config_.kv_heads; ++head) {
      const int32_t slot = slots[static_cast<size_t>(layer * config_.kv_heads + head)];
      victims[static_cast<size_t>(layer)].push_back(
          LivePositions(row, live_after, layer, head)[static_cast<size_t>(slot)]);
    }
  }
  options_.dump->OnDecode(row.state_row, std::move(victims));
}

std::vector<int32_t> ModelExecutor::LivePositions(const StepRow& row, int32_t live, int32_t layer, int32_t kv_head) {
  const KvCacheView& view = kv_cache_.view();
  std::vector<int32_t> storage;
  storage.reserve(2 * row.block_table.size());
  const Tables tables = TablesAfterCopies(row, &storage);
  const std::span<const int32_t> score_blocks = tables.score_blocks.empty() ? tables.blocks : tables.score_blocks;
  std::vector<int32_t> positions(static_cast<size_t>(WholeBlocks(live)));
  for (int32_t slot = 0; slot < live; slot += kBlockSlots) {
    const int32_t score_block = score_blocks[static_cast<size_t>(slot / kBlockSlots)];
    device_.CopyToHost(positions.data() + slot,
                       view.logical_position + view.layout.score_offset(layer, score_block, kv_head),
                       kBlockSlots * sizeof(int32_t));
  }
  positions.resize(static_cast<size_t>(live));
  return positions;
}

}  // namespace hydrant
