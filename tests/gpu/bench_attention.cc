#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/step_table.h"
#include "kernels/reference/reference.h"
#include "tests/gpu/bench_cache.h"
#include "tests/gpu/bench_groups.h"

namespace hydrant::cuda {
namespace {

using reference::Values;

constexpr int32_t kGroup = kHeads / kKvHeads;
constexpr int32_t kWidth = (kHeads + 2 * kKvHeads) * kDim;
const float kScale = 1.0f / std::sqrt(static_cast<float>(kDim));

StepBounds BoundsOf(int32_t tokens, int32_t rows, int32_t slots) {
  return {.tokens_max = tokens, .rows_max = rows, .slots_max = slots, .query_heads = kHeads, .head_dim = kDim};
}

// --- rotation and writes ----------------------------------------------------------------------------------------------

struct Rope {
  Rope(Bench& bench, int32_t positions) : inv_freq(kDim / 2) {
    for (size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] = std::pow(500000.0, -2.0 * static_cast<double>(i) / kDim);
    spec = {.dims = kDim, .inv_freq = inv_freq, .positions_max = positions};
    std::vector<float> rows;
    for (int32_t position = 0; position < positions; ++position) {
      for (const double f : inv_freq) rows.push_back(static_cast<float>(std::cos(position * f)));
      for (const double f : inv_freq) rows.push_back(static_cast<float>(std::sin(position * f)));
    }
    table = bench.Upload(rows);
    view = {static_cast<const float*>(table->data()), kDim};
  }

  std::vector<double> inv_freq;
  RopeSpec spec;
  std::unique_ptr<CudaBuffer> table;
  RopeView view;
};

// Query and KV head 0 of a token, which stands at `position` in slot `slot` of a sequence, after one launch.
bool SameWrite(Bench& bench, const BenchCache& cache, const Rope& rope, const std::vector<float>& before,
               const float* after, int32_t token, int32_t position, int32_t sequence, int32_t slot) {
  const size_t at = static_cast<size_t>(token) * kWidth, key = at + kHeads * kDim, value = key + kKvHeads * kDim;
  const auto rotated = [&](size_t from) {
    return reference::Rope(rope.spec, position, Doubles(&before[from], kDim), 1, kDim);
  };
  const auto q = bench.Read<float>(after + at, kDim);
  const size_t score_at = cache.ScoreAt(sequence, 0, 0, slot);
  const auto read = [&](const void* from) {
    return bench.Read<__nv_bfloat16>(static_cast<const __nv_bfloat16*>(from) + score_at * kDim, kDim);
  };
  const auto near = [](const std::vector<__nv_bfloat16>& stored, const Values& expected) {
    for (size_t i = 0; i < expected.size(); ++i) {
      const double x = static_cast<double>(__bfloat162float(stored[i]));
      if (!(std::abs(x - expected[i]) <= 0x1p-8 * std::abs(expected[i]) + 1e-5)) return false;
    }
    return true;
  };
  return Near(q.data(), rotated(at), 1e-5) && near(read(cache.view.k), rotated(key)) &&
         near(read(cache.view.v), Doubles(&before[value], kDim)) &&
         bench.Read<int32_t>(cache.view.position + score_at, 1)[0] == position &&
         bench.Read<float>(cache.view.score + score_at, 1)[0] == 0.0f;
}

// A prompt of `tokens`, or (`live` > 0) a token each of so many sequences, in the places of their victims.
void RopeAndWrites(Bench& bench, int32_t tokens, int32_t live) {
  const bool decodes = live > 0;
  const int32_t slots = decodes ? live : tokens, sequences = decodes ? tokens : 1;
  BenchCache cache(bench, sequences, slots);
  const Rope rope(bench, slots + 1);
  EvictionPolicy policy;
  policy.evicts = decodes;
  policy.heavy = slots / 2;
  policy.recent = slots - policy.heavy;
  std::vector<BatchRow> rows;
  for (int32_t i = 0; i < sequences; ++i) {
    rows.push_back({{.state_row = i,
                     .position = decodes ? live : 0,
                     .live = decodes ? live : 0,
                     .prompt_length = decodes ? 1 : tokens,
                     .prefill = !decodes,
                     .reuse_victim = decodes},
                    {.block_table = cache.tables[static_cast<size_t>(i)]},
                    /*token_begin=*/i,
                    /*token_count=*/decodes ? 1 : tokens,
                    policy});
  }
  const std::vector<int32_t> ids(static_cast<size_t>(tokens), 1);
  const int64_t floats = StepTable::RowFloats(slots, kHeads, kDim) * sequences;
  StepTable step(bench.stream(), BoundsOf(tokens, sequences, slots), floats);
  step.Fill({.token_ids = ids, .rows = rows});
  const auto before = Normal(static_cast<size_t>(tokens) * kWidth, 10);
  const auto qkv = bench.Upload(before);
  const AttentionShape shape{0, kHeads, kScale, static_cast<float*>(qkv->data()), {}};
  const auto launch = [&](int) {
    LaunchRopeAndWriteKv(bench.stream(), step.view(), rope.view, {}, shape, tokens, cache.view);
  };
  // Each launch rotates further: the first is the one to look at.
  launch(0);
  bool correct = true;
  for (const int32_t token : {0, tokens / 2, tokens - 1}) {
    correct = correct && SameWrite(bench, cache, rope, before, shape.qkv, token, decodes ? live : token,
                                   decodes ? token : 0, decodes ? 0 : token);  // every victim is slot 0
  }
  const double seconds = decodes ? bench.TimeCaptured(launch) : bench.Time(launch);
  // Read and, but for values, written; keys and values once more in 16 bits; scores and positions.
  const double bytes = 4.0 * kWidth + 4.0 * (kHeads + kKvHeads) * kDim + 2.0 * 2 * kKvHeads * kDim + 8.0 * kKvHeads;
  bench.Bytes((decodes ? "L2: rope, KV write, " + std::to_string(tokens) + " rows"
                       : "rope, KV write, prompt of " + std::to_string(tokens)),
              seconds, bytes * tokens, correct);
}

// --- generated tokens -------------------------------------------------------------------------------------------------

bool SameAttention(const BenchCache& cache, const std::vector<float>& q, const std::vector<float>& out, int32_t slots) {
  const Values head = Doubles(q.data(), size_t{kDim} * kGroup);
  const auto expected =
      reference::Attention(head, kGroup, cache.HeadZero(cache.host_k, slots), cache.HeadZero(cache.host_v, slots),
                           slots, kDim, static_cast<double>(kScale));
  return Near(out.data(), expected.out, 2e-2);  // bf16 weights may be rounded
}

enum class Kind { kPlain, kScored, kVictims };

// Checks the victim of every KV head of the last sequence, by the scores and positions that the last launch left.
bool SameVictims(Bench& bench, const BenchCache& cache, int32_t sequence, int32_t live, int32_t candidates_end) {
  const auto scores = bench.Read<float>(cache.view.score, cache.layout.score_count());
  const auto victims = bench.Read<int32_t>(cache.view.victim, cache.layout.victim_count());
  for (int32_t head = 0; head < kKvHeads; ++head) {
    int32_t expected = 0;  // positions are the slots': of equal scores the last one goes
    for (int32_t slot = 0; slot < std::min(live, candidates_end); ++slot) {
      if (scores[cache.ScoreAt(sequence, 0, head, slot)] <= scores[cache.ScoreAt(sequence, 0, head, expected)])
        expected = slot;
    }
    if (victims[static_cast<size_t>(cache.layout.victim_offset(0, sequence, head))] != expected) return false;
  }
  return true;
}

void DecodeAttention(Bench& bench, int32_t sequences, int32_t live, Kind kind) {
  BenchCache cache(bench, sequences, live);
  EvictionPolicy policy;
  policy.evicts = kind != Kind::kPlain;
  policy.heavy = live / 2;
  policy.recent = live - policy.heavy;
  std::vector<BatchRow> rows;
  const std::vector<int32_t> ids(static_cast<size_t>(sequences), 1);
  for (int32_t i = 0; i < sequences; ++i) {
    rows.push_back({{.state_row = i, .position = live - 1, .live = live - 1, .choose_victim = kind == Kind::kVictims},
                    {.block_table = cache.tables[static_cast<size_t>(i)]},
                    /*token_begin=*/i,
                    /*token_count=*/1,
                    policy});
  }
  const int64_t floats = StepTable::RowFloats(live, kHeads, kDim) * sequences;
  StepTable step(bench.stream(), BoundsOf(sequences, sequences, live), floats);
  step.Fill({.token_ids = ids, .rows = rows});
  const CudaBuffer scratch(static_cast<size_t>(floats) * sizeof(float));
  const auto q = Normal(static_cast<size_t>(sequences) * kWidth, 7);
  const auto qkv = bench.Upload(q);
  const CudaBuffer out(static_cast<size_t>(sequences) * kHeads * kDim * sizeof(float));
  bench.Poison(out);
  CheckCuda(cudaMemsetAsync(cache.view.victim, 0xff, cache.victim->bytes(), bench.stream()), "cudaMemsetAsync");
  const AttentionShape shape{0, kHeads, kScale, static_cast<float*>(qkv->data()), static_cast<float*>(out.data())};
  const double seconds = bench.Time([&](int) {
    for (const DecodeGroup& group : step.decode_groups()) {
      LaunchDecodeAttention(bench.stream(), step.view(), {}, shape, step.decode_items() + group.first, group.count,
                            group.splits_max, group.rolls, static_cast<float*>(scratch.data()), cache.view);
    }
  });
  bool correct = SameAttention(cache, q, bench.Read<float>(out.data(), kHeads * kDim), live);
  if (kind == Kind::kVictims) {
    correct = correct && SameVictims(bench, cache, sequences - 1, live, live - policy.recent);
  }
  const bool cached = cache.layout.kv_bytes() < size_t{24} << 20;
  constexpr const char* kKinds[] = {"", ", H2O", ", H2O, victims"};
  bench.Bytes(std::string(cached ? "L2: " : "") + "decode attention, " + std::to_string(sequences) + " x " +
                  std::to_string(live) + kKinds[static_cast<size_t>(kind)],
              seconds, 2.0 * static_cast<double>(cache.layout.kv_bytes()), correct);
}

// --- prompts ----------------------------------------------------------------------------------------------------------

void PromptAttention(Bench& bench, int32_t tokens) {
  BenchCache cache(bench, 1, tokens);
  EvictionPolicy policy;
  policy.evicts = true;
  const BatchRow row{{.prompt_length = tokens, .prefill = true},
                     {.block_table = cache.tables[0]},
                     /*token_begin=*/0,
                     /*token_count=*/tokens,
                     policy};
  const std::vector<int32_t> ids(static_cast<size_t>(tokens), 1);
  StepTable step(bench.stream(), BoundsOf(tokens, 1, tokens), StepTable::RowFloats(tokens, kHeads, kDim));
  step.Fill({.token_ids = ids, .rows = {&row, 1}});
  const PromptGroup& group = step.prompt_groups().front();
  const auto q = Normal(static_cast<size_t>(tokens) * kWidth, 8);
  const auto qkv = bench.Upload(q);
  const CudaBuffer out(static_cast<size_t>(tokens) * kHeads * kDim * sizeof(float)),
      sums(static_cast<size_t>(tokens) * kHeads * sizeof(float));
  bench.Poison(out);
  const AttentionShape shape{.query_heads = kHeads,
                             .scale = kScale,
                             .qkv = static_cast<float*>(qkv->data()),
                             .out = {static_cast<float*>(out.data())},
                             .warpgroups = bench.warpgroups()};
  const double seconds = bench.Time(
      [&](int) {
        LaunchPromptAttention(bench.stream(), step.view(), {}, shape, step.queries(group),
                              static_cast<float*>(sums.data()), cache.view);
      },
      /*repeats=*/3, /*run=*/1);
  const size_t last = static_cast<size_t>(tokens - 1);
  const std::vector<float> q_last(q.begin() + static_cast<ptrdiff_t>(last * kWidth), q.end());
  const auto all = bench.Read<float>(static_cast<float*>(out.data()) + last * kHeads * kDim, kHeads * kDim);
  const double pairs = 0.5 * tokens * (tokens + 1.0);
  bench.Operations("prompt attention, " + std::to_string(tokens), seconds, 4.0 * kDim * kHeads * pairs,
                   SameAttention(cache, q_last, all, tokens));
  const double scoring = bench.Time(
      [&](int) {
        LaunchPromptScores(bench.stream(), step.view(), {}, shape, step.scored(group),
                           static_cast<const float*>(sums.data()), cache.view);
      },
      /*repeats=*/3, /*run=*/1, [&] { cache.RestoreScores(bench); });
  // Every query's probabilities come to one, over all heads of a group and all keys.
  const auto scores = bench.Read<float>(cache.view.score, cache.layout.score_count());
  double added = 0.0;
  for (size_t i = 0; i < scores.size(); ++i)
    added += static_cast<double>(scores[i]) - static_cast<double>(cache.scores[i]);
  const double expected = static_cast<double>(tokens) * kHeads;
  bench.Operations("prompt scores, " + std::to_string(tokens), scoring, 2.0 * kDim * kHeads * pairs,
                   std::abs(added - expected) < 1e-2 * expected);
}

}  // namespace

void BenchAttention(Bench& bench) {
  const std::vector<std::pair<int32_t, int32_t>> decodes =
      bench.small()
          ? std::vector<std::pair<int32_t, int32_t>>{{1, 40}, {2, 272}}
          : std::vector<std::pair<int32_t, int32_t>>{{1, 2048}, {1, 32768}, {32, 2048}, {128, 2048}, {8, 32768}};
  RopeAndWrites(bench, bench.small() ? 3 : 64, bench.small() ? 20 : 2048);
  RopeAndWrites(bench, bench.small() ? 19 : 2048, 0);
  for (const Kind kind : {Kind::kPlain, Kind::kScored, Kind::kVictims}) {
    for (const auto& [sequences, live] : decodes) DecodeAttention(bench, sequences, live, kind);
  }
  for (const int32_t tokens : bench.small() ? std::vector<int32_t>{40} : std::vector<int32_t>{2048, 8192, 32768}) {
    PromptAttention(bench, tokens);
  }
}

}  // namespace hydrant::cuda
