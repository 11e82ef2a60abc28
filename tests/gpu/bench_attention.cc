#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
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
  Rope(Bench& bench, int32_t positions, int32_t dims = kDim) : inv_freq(static_cast<size_t>(dims / 2)) {
    for (size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] = std::pow(500000.0, -2.0 * static_cast<double>(i) / dims);
    spec = {.dims = dims, .inv_freq = inv_freq, .positions_max = positions};
    std::vector<float> rows;
    for (int32_t position = 0; position < positions; ++position) {
      for (const double f : inv_freq) rows.push_back(static_cast<float>(std::cos(position * f)));
      for (const double f : inv_freq) rows.push_back(static_cast<float>(std::sin(position * f)));
    }
    table = bench.Upload(rows);
    view = {static_cast<const float*>(table->data()), dims};
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

bool SameAttention(const BenchCache& cache, const Values& keys, const std::vector<float>& q,
                   const std::vector<float>& out, int32_t slots) {
  const int32_t dim = cache.layout.head_dim;
  const Values head = Doubles(q.data(), static_cast<size_t>(dim) * kGroup);
  const auto expected = reference::Attention(head, kGroup, keys, cache.HeadZero(cache.host_v, slots), slots, dim,
                                             1.0 / std::sqrt(static_cast<double>(dim)));
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

struct Decode {
  std::string name;
  std::vector<int32_t> lives;  // of each row, the longest first
  Kind kind = Kind::kPlain;
  KvType type = KvType::kBF16;
  int32_t head_dim = kDim;
  bool rolls = false;
};

// Blocks of each row: of a sequence of its own or, where it is shorter than the first, a part of one.
std::vector<std::vector<int32_t>> TablesOf(const Decode& decode) {
  std::vector<std::vector<int32_t>> tables;
  const auto each = static_cast<int32_t>(BlocksForSlots(decode.lives.front()));
  int32_t next = 0;
  for (const int32_t live : decode.lives) {
    const auto blocks = static_cast<int32_t>(BlocksForSlots(live));
    if (next % each + blocks > each) next += each - next % each;
    tables.emplace_back(static_cast<size_t>(blocks));
    std::iota(tables.back().begin(), tables.back().end(), next);
    next += blocks;
  }
  return tables;
}

// What the queries of head 0 are multiplied with: `rope`, if there is one, turns cached keys, whose positions are their slots.
Values KeysOf(const BenchCache& cache, int32_t slots, const Rope* rope) {
  Values keys = cache.HeadZero(cache.host_k, slots);
  const int32_t dim = cache.layout.head_dim;
  for (int32_t slot = 0; rope != nullptr && slot < slots; ++slot) {
    const auto at = keys.begin() + static_cast<ptrdiff_t>(slot) * dim;
    const Values rotated = reference::Rope(rope->spec, slot, Values(at, at + dim), 1, dim);
    std::copy(rotated.begin(), rotated.end(), at);
  }
  return keys;
}

void DecodeAttention(Bench& bench, const Decode& decode) {
  const int32_t longest = decode.lives.front(), dim = decode.head_dim, width = (kHeads + 2 * kKvHeads) * dim;
  const auto count = static_cast<int32_t>(decode.lives.size());
  const std::vector<std::vector<int32_t>> tables = TablesOf(decode);
  const auto each = static_cast<int32_t>(BlocksForSlots(longest));
  BenchCache cache(bench, tables.back().back() / each + 1, longest, 1, dim, decode.type);
  cache.layout.state_rows = cache.view.layout.state_rows = count;
  cache.victim = bench.Upload(std::vector<int32_t>(cache.layout.victim_count()));
  cache.view.victim = static_cast<int32_t*>(cache.victim->data());
  EvictionPolicy policy;
  policy.evicts = decode.kind != Kind::kPlain || decode.rolls;
  policy.rolling = decode.rolls;
  policy.heavy = longest / 2;
  policy.recent = longest - policy.heavy;
  std::vector<BatchRow> rows;
  const std::vector<int32_t> ids(static_cast<size_t>(count), 1);
  int64_t slots = 0;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t live = decode.lives[static_cast<size_t>(i)];
    slots += live;
    rows.push_back(
        {{.state_row = i, .position = live - 1, .live = live - 1, .choose_victim = decode.kind == Kind::kVictims},
         {.block_table = tables[static_cast<size_t>(i)]},
         /*token_begin=*/i,
         /*token_count=*/1,
         policy});
  }
  const int64_t floats = StepTable::RowFloats(WholeBlocks(longest), kHeads, dim) * count;
  StepBounds bounds = BoundsOf(count, count, WholeBlocks(longest));
  bounds.head_dim = dim;
  StepTable step(bench.stream(), bounds, floats);
  step.Fill({.token_ids = ids, .rows = rows});
  const CudaBuffer scratch(static_cast<size_t>(floats) * sizeof(float));
  const auto q = Normal(static_cast<size_t>(count) * static_cast<size_t>(width), 7);
  const auto qkv = bench.Upload(q);
  const size_t outputs = static_cast<size_t>(kHeads) * static_cast<size_t>(dim);
  const CudaBuffer out(static_cast<size_t>(count) * outputs * sizeof(float));
  bench.Poison(out);
  const std::unique_ptr<Rope> rope = decode.rolls ? std::make_unique<Rope>(bench, longest, dim) : nullptr;
  CheckCuda(cudaMemsetAsync(cache.view.victim, 0xff, cache.victim->bytes(), bench.stream()), "cudaMemsetAsync");
  const AttentionShape shape{0, kHeads, 1.0f / std::sqrt(static_cast<float>(dim)), static_cast<float*>(qkv->data()),
                             static_cast<float*>(out.data())};
  const double seconds = bench.Time([&](int) {
    for (const DecodeGroup& group : step.decode_groups()) {
      LaunchDecodeAttention(bench.stream(), step.view(), rope != nullptr ? rope->view : RopeView(), shape,
                            step.decode_items() + group.first, group.count, group.splits_max, group.rolls,
                            static_cast<float*>(scratch.data()), cache.view);
    }
  });
  const Values keys = KeysOf(cache, longest, rope.get());
  bool correct = SameAttention(cache, keys, q, bench.Read<float>(out.data(), outputs), longest);
  if (decode.kind == Kind::kVictims) {
    correct = correct && SameVictims(bench, cache, count - 1, longest, longest - policy.recent);
  }
  const double bytes =
      2.0 * static_cast<double>(slots) * static_cast<double>(cache.layout.block_kv_bytes()) / kBlockSlots;
  constexpr const char* kKinds[] = {"", ", H2O", ", H2O, victims"};
  bench.Bytes((bytes < 48 << 20 ? "L2: decode attention, " : "decode attention, ") + decode.name +
                  kKinds[static_cast<size_t>(decode.kind)],
              seconds, bytes, correct);
}

// What a device does with most chats: caches in bf16, heads of 128, all of one length; then all that differs.
void DecodeAttentions(Bench& bench) {
  const auto alike = [](int32_t count, int32_t live) {
    return Decode{std::to_string(count) + " x " + std::to_string(live),
                  std::vector<int32_t>(static_cast<size_t>(count), live)};
  };
  const bool small = bench.small();
  std::vector<Decode> decodes;
  if (small) {
    decodes = {alike(1, 40), alike(2, 272)};
  } else {
    decodes = {alike(1, 2048), alike(1, 32768), alike(32, 2048), alike(128, 2048), alike(8, 32768)};
  }
  for (const Kind kind : {Kind::kPlain, Kind::kScored, Kind::kVictims}) {
    for (Decode decode : decodes) {
      decode.kind = kind;
      DecodeAttention(bench, decode);
    }
  }
  // A budget and the token behind it; one long chat among short ones; and beside it the short ones alone.
  const int32_t budget = small ? 32 : 2048;
  DecodeAttention(bench, alike(small ? 2 : 32, budget + 1));
  Decode mixed = alike(small ? 3 : 128, budget);
  mixed.lives.front() = budget * 16;
  mixed.name = "one of " + std::to_string(budget * 16) + " among " + mixed.name;
  DecodeAttention(bench, mixed);
  for (const int32_t count : small ? std::vector<int32_t>{2} : std::vector<int32_t>{32, 128}) {
    Decode other = alike(count, budget);
    const std::string name = other.name;
    other.head_dim = 64, other.name = name + ", heads of 64";
    DecodeAttention(bench, other);
    other.head_dim = kDim, other.type = KvType::kInt8, other.name = name + ", int8";
    DecodeAttention(bench, other);
    other.type = KvType::kBF16, other.rolls = true, other.name = name + ", rolling";
    DecodeAttention(bench, other);
  }
}

// --- prompts ----------------------------------------------------------------------------------------------------------

void PromptAttention(Bench& bench, int32_t tokens, KvType type = KvType::kBF16, bool rolls = false) {
  BenchCache cache(bench, 1, tokens, 1, kDim, type);
  EvictionPolicy policy;
  policy.evicts = true;
  policy.rolling = rolls;
  const std::unique_ptr<Rope> rope = rolls ? std::make_unique<Rope>(bench, tokens) : nullptr;
  const RopeView turns = rolls ? rope->view : RopeView();
  const std::string name = std::to_string(tokens) + (type == KvType::kInt8 ? ", int8" : rolls ? ", rolling" : "");
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
        LaunchPromptAttention(bench.stream(), step.view(), turns, shape, step.queries(group),
                              static_cast<float*>(sums.data()), cache.view);
      },
      /*repeats=*/3, /*run=*/1);
  const size_t last = static_cast<size_t>(tokens - 1);
  const std::vector<float> q_last(q.begin() + static_cast<ptrdiff_t>(last * kWidth), q.end());
  const auto all = bench.Read<float>(static_cast<float*>(out.data()) + last * kHeads * kDim, kHeads * kDim);
  const double pairs = 0.5 * tokens * (tokens + 1.0);
  bench.Operations("prompt attention, " + name, seconds, 4.0 * kDim * kHeads * pairs,
                   SameAttention(cache, KeysOf(cache, tokens, rope.get()), q_last, all, tokens));
  const double scoring = bench.Time(
      [&](int) {
        LaunchPromptScores(bench.stream(), step.view(), turns, shape, step.scored(group),
                           static_cast<const float*>(sums.data()), cache.view);
      },
      /*repeats=*/3, /*run=*/1, [&] { cache.RestoreScores(bench); });
  // Every query's probabilities come to one, over all heads of a group and all keys.
  const auto scores = bench.Read<float>(cache.view.score, cache.layout.score_count());
  double added = 0.0;
  for (size_t i = 0; i < scores.size(); ++i)
    added += static_cast<double>(scores[i]) - static_cast<double>(cache.scores[i]);
  const double expected = static_cast<double>(tokens) * kHeads;
  bench.Operations("prompt scores, " + name, scoring, 2.0 * kDim * kHeads * pairs,
                   std::abs(added - expected) < 1e-2 * expected);
}

}  // namespace

void BenchAttention(Bench& bench) {
  RopeAndWrites(bench, bench.small() ? 3 : 64, bench.small() ? 20 : 2048);
  RopeAndWrites(bench, bench.small() ? 19 : 2048, 0);
  DecodeAttentions(bench);
  for (const int32_t tokens : bench.small() ? std::vector<int32_t>{40} : std::vector<int32_t>{2048, 8192, 32768}) {
    PromptAttention(bench, tokens);
    if (tokens > 8192) continue;
    PromptAttention(bench, tokens, KvType::kInt8);
    PromptAttention(bench, tokens, KvType::kBF16, /*rolls=*/true);
  }
}

}  // namespace hydrant::cuda
