#include "model/run/warm_up.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <new>
#include <numeric>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

// Prompt tokens of every sequence; with the tokens that are generated they fit a block.
constexpr int32_t kPrompt = 8;

// Prompt tokens of the largest step with a cut. It needs no more memory than other steps, but the time of prompts with
// a budget may grow with the square of their length.
constexpr int32_t kCutTokensMax = 512;

// One on each side of every border between a device's products, and some between.
constexpr int32_t kRowCounts[] = {257, 129, 65, 64, 33, 17, 9, 5, 4, 3, 2, 1};

constexpr TurnId kTurn = {.session = ~uint64_t{0}, .turn = 1};

class Steps {
 public:
  // `adapter`: of all rows; the slot may be empty.
  Steps(Executor& executor, const ModelExecutorOptions& options, const EvictionPolicy& policy, int32_t adapter = -1)
      : executor_(executor),
        options_(options),
        policy_(policy),
        adapter_(adapter),
        blocks_(static_cast<size_t>(options.blocks)) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
    prompt_.resize(static_cast<size_t>(options.batch_tokens_max));
    if (policy.pin_rows > 0) segments_.assign(prompt_.size() / 64 + 1, 0x0001000100010001);
  }

  // Up to `tokens` prompt tokens, as many as a step may have of so many blocks and sequences, each sequence in blocks of its own.
  void Prompts(int32_t tokens) {
    StepInput input;
    int32_t block = 0;
    while (tokens > 0 && block < options_.blocks && std::ssize(input.rows) < options_.sequences_max) {
      const int32_t left = options_.blocks - block;
      const int32_t count = std::min({tokens, options_.context_max, left * kBlockSlots});
      StepRow row = Row(static_cast<int32_t>(input.rows.size()), Tokens(count), 0, 0);
      row.prompt_length = count;
      row.prefill = true;
      row.block_table = row.score_table = Blocks(block, WholeBlocks(count) / kBlockSlots);
      if (policy_.evicts && count > policy_.keep()) row.shrink_to = policy_.keep();
      if (policy_.pin_rows > 0) row.segment_starts = std::span(segments_).first(static_cast<size_t>((count + 63) / 64));
      input.rows.push_back(row);
      tokens -= count;
      block += WholeBlocks(count) / kBlockSlots;
    }
    executor_.Run(input);
  }

  // Generate for all numbers of sequences up to `most` that are multiplied by different kernels.
  void GenerateAll(int32_t most) {
    Generate(most);
    for (const int32_t sequences : kRowCounts) {
      if (sequences < most) Generate(sequences);
    }
  }

  // Short prompts and two tokens each, sequence i in block i.
  void Generate(int32_t sequences) {
    const int32_t each = std::min(kPrompt, options_.batch_tokens_max / sequences);
    StepInput prompts, first, second;
    for (int32_t i = 0; i < sequences; ++i) {
      StepRow row = Row(i, Tokens(each), 0, 0);
      row.prompt_length = each;
      row.prefill = true;
      prompts.rows.push_back(row);

      row = Row(i, fed_, each, each);
      row.prompt_length = each;
      row.choose_victim = policy_.evicts && each >= policy_.recent;
      first.rows.push_back(row);

      row.position = row.live = each + 1;
      row.reuse_victim = row.choose_victim;
      row.choose_victim = false;
      second.rows.push_back(row);
    }
    executor_.Run(prompts);
    executor_.Run(first);
    executor_.Run(second);
  }

  // A token whose logits are adjusted before it is drawn.
  void Adjusted() {
    constexpr TokenBias kBias[] = {{.id = 0, .bias = 1.0f}};
    LogitAdjustments adjustments;
    adjustments.biases = kBias;
    const LogitAdjustments* const of_row = &adjustments;
    StepInput input;
    input.rows.push_back(Row(0, Tokens(1), 0, 0));
    input.rows[0].prompt_length = 1;
    input.rows[0].prefill = true;
    const Executor::Ticket ticket = executor_.Launch(input);
    executor_.Sample(ticket, {&of_row, 1});
    (void)executor_.Await(ticket);
  }

  // What a sequence may be asked besides, of that in block 0 after Generate: its last token replaced another one.
  // REQUIRES: the policy evicts; Generate had room for whole prompts.
  void Rest() {
    const int32_t live = kPrompt + 1, position = live + 1, keep = policy_.keep();
    const std::span<const int32_t> table = Blocks(0, 1);
    const BlockCopy copy{.from = 0, .from_score_block = 0, .to = 1};
    StepInput asked;
    asked.score_inits.push_back({.from = -1, .to = options_.blocks - 1, .position = 0});
    asked.rows.push_back(Row(0, fed_, position, live));
    asked.rows[0].prompt_length = kPrompt;
    asked.rows[0].losses = {.keep_max = keep, .cuts = 1, .policy = &policy_};
    if (options_.blocks > 1) asked.rows[0].copies = {&copy, 1};
    asked.rows[0].shrink_to = keep;
    executor_.Run(asked);

    KvScores score_blocks;
    StepInput read;
    read.reads.push_back({.live = keep, .score_blocks = table, .out = &score_blocks});
    executor_.Run(read);
    StepInput park;
    const BlockSlice all = {.begin = 0, .end = static_cast<int32_t>(BlocksForSlots(keep))};
    park.parks.push_back({{.id = kTurn, .begins = true, .live = keep, .computed = position + 1, .slice = all},
                          /*block_table=*/table,
                          /*score_table=*/table,
                          &policy_});
    if (!executor_.Run(park).park_failures.empty()) throw std::bad_alloc();
    StepInput restore;
    restore.restores.push_back(
        {{.id = kTurn, .live = keep, .slice = all, .cut_to = keep - 1, .computed = position + 1, .rows = 1},
         table,
         &policy_});
    restore.rows.push_back(Row(0, fed_, position + 1, keep - 1));
    restore.rows[0].prompt_length = kPrompt;
    executor_.Run(restore);
    StepInput drop;
    drop.drops.push_back(kTurn);
    executor_.Run(drop);
  }

 private:
  StepRow Row(int32_t state_row, std::span<const int32_t> tokens, int32_t position, int32_t live) const {
    StepRow row;
    row.state_row = state_row;
    row.tokens = tokens;
    row.position = position;
    row.live = live;
    row.block_table = row.score_table = Blocks(state_row % options_.blocks, 1);
    row.sample = true;
    row.logprobs = 1;
    row.adapter = adapter_;
    row.policy = &policy_;
    row.sampling = &sampling_;
    return row;
  }
  std::span<const int32_t> Tokens(int32_t count) const { return std::span(prompt_).first(static_cast<size_t>(count)); }
  std::span<const int32_t> Blocks(int32_t begin, int32_t count) const {
    return std::span(blocks_).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
  }

  Executor& executor_;
  const ModelExecutorOptions& options_;
  const EvictionPolicy policy_;
  const int32_t adapter_;
  const SamplingParams sampling_{.top_p = 0.9f, .top_k = 4};
  std::vector<int32_t> blocks_;
  std::vector<int32_t> prompt_;
  std::vector<uint64_t> segments_;  // BatchRow::segment_starts of any prompt
  const std::vector<int32_t> fed_ = {kSampledId};
};

}  // namespace

absl::Status WarmUp(Executor& executor, const ModelExecutorOptions& options) {
  assert(options.dump == nullptr);
  const int32_t sequences_max = std::min({options.sequences_max, options.blocks, options.batch_tokens_max});
  const bool generates = options.context_max > kPrompt + 4;
  EvictionPolicy full, budgeted;
  budgeted.evicts = true;
  budgeted.heavy = budgeted.recent = 2;
  EvictionPolicy rolling = budgeted;
  rolling.rolling = true;
  EvictionPolicy pinning = budgeted;
  pinning.pin_rows = kPrompt;
  try {
    for (const EvictionPolicy& policy : {full, budgeted, rolling}) {
      Steps steps(executor, options, policy);
      steps.Prompts(policy.evicts ? std::min(kCutTokensMax, options.batch_tokens_max) : options.batch_tokens_max);
      if (!generates) continue;
      steps.GenerateAll(sequences_max);
      if (policy.evicts && options.batch_tokens_max >= kPrompt) steps.Rest();
    }
    Steps(executor, options, full).Adjusted();
    Steps(executor, options, pinning).Prompts(std::min(kCutTokensMax, options.batch_tokens_max));
    // What is launched for rows with adapters is other, and of policies depends on whether keys stand at their ranks alone.
    for (const EvictionPolicy& policy : {full, rolling}) {
      if (options.adapters.slots == 0) break;
      Steps steps(executor, options, policy, /*adapter=*/0);
      steps.Prompts(std::min(kCutTokensMax, options.batch_tokens_max));
      if (generates) steps.GenerateAll(sequences_max);
    }
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("not enough memory beside the keys and values for steps of ", options.batch_tokens_max,
                     " tokens; lower --gpu-memory-utilization, --kv-cache-memory-bytes or --max-num-batched-tokens"));
  }
  return absl::OkStatus();
}

}  // namespace hydrant
