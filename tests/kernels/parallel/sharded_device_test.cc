// Every op on several ranks against one device: bit for bit.
#include "kernels/parallel/sharded_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "kernels/parallel/cpu_ranks.h"
#include "tests/kernels/operands.h"
#include "tests/kernels/stored_rows.h"

namespace hydrant {
namespace {

constexpr StepBounds kBounds = {.tokens_max = 32,
                                .rows_max = 4,
                                .slots_max = 64,
                                .cols_max = 256,
                                .query_heads = 8,
                                .head_dim = 16,
                                .vocab = 300,
                                .logits_rows_max = 4,
                                .quantised_cols_max = 256};

std::unique_ptr<Device> MakeRanks(int ranks) {
  std::unique_ptr<Device> device;
  if (ranks == 1) {
    device = CpuDevice::Create({.threads = 2}).value();
  } else {
    device = MakeCpuRanks(ranks, {.threads = 2}).value();
  }
  device->ReserveScratch(kBounds);
  return device;
}

std::unique_ptr<DeviceBuffer> Upload(Device& device, const Floats& values) {
  auto buffer = device.Allocate(values.size() * sizeof(float));
  device.CopyToDevice(buffer->data(), values.data(), values.size() * sizeof(float));
  return buffer;
}

Floats Download(Device& device, const Matrix& matrix) {
  Floats values(static_cast<size_t>(matrix.rows * matrix.cols));
  device.CopyToHost(values.data(), matrix.data, values.size() * sizeof(float));
  return values;
}

void ExpectBits(const Floats& a, const Floats& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

struct Product {
  std::string name;
  LinearSpec spec;
};

std::vector<Product> Products() {
  const WeightFormat f32 = WeightFormat::kF32, bf16 = WeightFormat::kBF16, q8 = WeightFormat::kQ8_0,
                     q4 = WeightFormat::kQ4_K;
  return {{"fp32", {.rows = 101, .cols = 64, .format = f32}},
          {"bf16", {.rows = 101, .cols = 64, .format = bf16}},
          {"quantised", {.rows = 75, .cols = 256, .format = q4}},
          {"gated", {.rows = 2 * 45, .cols = 64, .format = bf16, .gated = true}},
          {"gate and up in two formats", {.rows = 2 * 45, .cols = 256, .gated = true, .parts = {{45, q4}, {45, q8}}}},
          {"parts in three formats", {.rows = 90, .cols = 256, .parts = {{40, q8}, {30, q4}, {20, bf16}}}}};
}

// What a device makes of made-up rows of `spec`, one after the other with each epilogue.
Floats MultiplyAll(Device& device, const LinearSpec& spec, int64_t n) {
  const Floats w = Random(spec.rows * spec.cols, 3, 0.1f), bias = Random(spec.rows, 4), x = Random(n * spec.cols, 5);
  std::vector<LinearPart> parts = spec.parts;
  if (parts.empty()) parts.push_back({spec.rows, spec.format});
  std::vector<std::vector<std::byte>> stored;
  for (const LinearPart& part : parts) {
    stored.push_back(IsQuantised(part.format) ? RandomStoredRows(part.format, spec.rows, spec.cols, 6)
                                              : std::vector<std::byte>());
  }
  const auto read_stored = [&](int64_t begin, int64_t end, std::byte* out) {
    int64_t first = 0;
    for (size_t i = 0; i < parts.size(); first += parts[i++].rows) {
      if (begin < first || begin >= first + parts[i].rows) continue;
      const int64_t bytes = RowBytes(parts[i].format, spec.cols);
      std::memcpy(out, stored[i].data() + begin * bytes, static_cast<size_t>((end - begin) * bytes));
      return;
    }
  };
  const auto weight = device.MakeLinear(spec, {ReaderOf(w, spec.cols), read_stored}, bias);
  EXPECT_EQ(static_cast<int64_t>(weight->bytes()), device.LinearBytes(spec, true));
  const int64_t cols = spec.gated ? spec.rows / 2 : spec.rows;
  const auto input = Upload(device, x), output = Upload(device, Random(n * cols, 7));
  const Matrix in = {input->data(), DType::kF32, n, spec.cols}, out = {output->data(), DType::kF32, n, cols};
  Floats all;
  const auto keep = [&] {
    const Floats y = Download(device, out);
    all.insert(all.end(), y.begin(), y.end());
  };
  if (spec.gated) {
    device.LinearGated(*weight, Activation::kSilu, in, out);
    keep();
    return all;
  }
  device.Linear(*weight, in, out, /*accumulate=*/true);
  keep();
  device.LinearActivated(*weight, Activation::kGelu, in, out);
  keep();
  device.Linear(*weight, in, out, /*accumulate=*/false);
  keep();
  return all;
}

TEST(ShardedDevice, ProductsHaveTheBitsOfOne) {
  const std::unique_ptr<Device> one = MakeRanks(1);
  for (const int ranks : {2, 3, 4}) {
    const std::unique_ptr<Device> device = MakeRanks(ranks);
    for (const Product& product : Products()) {
      for (const int64_t n : {1, 3, 20}) {
        SCOPED_TRACE(product.name + ", " + std::to_string(ranks) + " ranks, " + std::to_string(n) + " rows");
        ExpectBits(MultiplyAll(*device, product.spec, n), MultiplyAll(*one, product.spec, n));
      }
    }
  }
}

// A layer's attention, of a prompt and of the token after it, with all that is added to it by head.
struct Attended {
  Floats out, scores, tiles;
};

Attended Attend(Device& device, bool over_rows) {
  constexpr int32_t kHeads = 4, kQueries = 8, kDim = 16, kPrompt = 20;
  constexpr int64_t kQkv = (kQueries + 2 * kHeads) * kDim;
  const LinearSpec spec = {.rows = kQkv, .cols = 32, .key_rows = kHeads * kDim};
  const Floats w = Random(spec.rows * spec.cols, 11, 0.2f);
  const auto weight = device.MakeLinear(spec, ReaderOf(w, spec.cols), {});
  std::vector<double> inv_freq;
  for (int32_t i = 0; i < kDim / 2; ++i) inv_freq.push_back(1.0 / (1 + i));
  const auto rope = device.MakeRope({.dims = kDim, .inv_freq = inv_freq, .positions_max = 64});
  Floats balance = Random(kHeads * kDim, 12);
  for (float& factor : balance) factor = 1 + factor * factor;
  for (size_t i = 0; i < balance.size(); ++i) {
    if (i % kDim >= kDim / 2) balance[i] = balance[i - kDim / 2];
  }
  const auto q_norm = Upload(device, Random(kDim, 13)), k_norm = Upload(device, Random(kDim, 14)),
             factors = Upload(device, balance), sinks = Upload(device, Random(kQueries, 15));
  const auto floats = [](const std::unique_ptr<DeviceBuffer>& buffer) {
    return static_cast<const float*>(buffer->data());
  };
  HeadNorms norms;
  norms.q.weight = floats(q_norm);
  norms.k.weight = floats(k_norm);
  norms.balance = floats(factors);

  KvCacheView kv;
  kv.layout = {.layers = 2, .blocks = 4, .kv_heads = kHeads, .head_dim = kDim, .state_rows = 2};
  const auto take = [&](size_t rows, size_t unit) { return device.AllocateByHead(kv.layout, rows * 2 * kHeads, unit); };
  const auto k = take(4, kv.layout.tile_bytes()), v = take(4, kv.layout.tile_bytes()), score = take(4, 64),
             position = take(4, 64), victim = take(2, 4);
  kv.k = k->data();
  kv.v = v->data();
  kv.score = static_cast<float*>(score->data());
  kv.position = static_cast<int32_t*>(position->data());
  kv.victim = static_cast<int32_t*>(victim->data());

  const std::vector<int32_t> table = {2, 0}, ids(kPrompt, 1);
  const auto input = Upload(device, Random(kPrompt * spec.cols, 16)),
             qkv = device.Allocate(kPrompt * kQkv * sizeof(float)),
             out = device.Allocate(kPrompt * kQueries * kDim * sizeof(float));
  Attended all;
  for (const bool prefill : {true, false}) {
    BatchRow row;
    row.state_row = 1;
    row.prefill = prefill;
    row.prompt_length = kPrompt;
    row.position = row.live = prefill ? 0 : kPrompt;
    row.choose_victim = !prefill;
    row.block_table = table;
    row.token_count = prefill ? kPrompt : 1;
    row.policy = {.evicts = true, .heavy = 10, .recent = 10};
    device.BeginStep({.token_ids = std::span(ids).first(static_cast<size_t>(row.token_count)), .rows = {&row, 1}});
    const int64_t tokens = row.token_count;
    const Matrix in = {input->data(), DType::kF32, tokens, spec.cols}, heads = {qkv->data(), DType::kF32, tokens, kQkv},
                 y = {out->data(), DType::kF32, tokens, kQueries * kDim};
    const auto ops = [&] {
      for (int32_t layer = 0; layer < 2; ++layer) {
        device.Linear(*weight, in, heads, /*accumulate=*/false);
        device.RopeAndWriteKv(rope.get(), norms, layer, heads, kv);
        device.Attention(rope.get(), {.scale = 0.25f, .sinks = floats(sinks)}, layer, heads, kv, y);
      }
    };
    if (over_rows) {
      device.RunLayers(nullptr, ops);
    } else {
      ops();
    }
    const Floats result = Download(device, y);
    all.out.insert(all.out.end(), result.begin(), result.end());
  }
  all.scores.resize(kv.layout.score_count());
  device.CopyToHost(all.scores.data(), kv.score, all.scores.size() * sizeof(float));
  std::vector<int32_t> victims(kv.layout.victim_count());
  device.CopyToHost(victims.data(), kv.victim, victims.size() * sizeof(int32_t));
  all.scores.insert(all.scores.end(), victims.begin(), victims.end());
  for (int32_t head = 0; head < kHeads; ++head) {
    Floats tile(16 * kDim);
    device.ReadTile(kv, head % 2 == 0, 1, 2, head, tile.data());
    all.tiles.insert(all.tiles.end(), tile.begin(), tile.end());
  }
  return all;
}

// Op by op, and layer by layer with every rank on its own.
TEST(ShardedDevice, AttentionHasTheBitsOfOne) {
  const Attended one = Attend(*MakeRanks(1), true);
  for (const int ranks : {2, 4}) {
    for (const bool over_rows : {false, true}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks");
      const Attended all = Attend(*MakeRanks(ranks), over_rows);
      ExpectBits(all.out, one.out);
      ExpectBits(all.scores, one.scores);
      ExpectBits(all.tiles, one.tiles);
    }
  }
}

// A table is read by its rows, whoever has which of them as outputs.
TEST(ShardedDevice, ATableHasAllItsRowsOnEveryRank) {
  const LinearSpec spec = {.rows = 30, .cols = 32, .use = LinearUse::kTableAndProduct};
  const Floats w = Random(spec.rows * spec.cols, 21);
  Floats rows[2], logits[2];
  for (const int ranks : {1, 3}) {
    const std::unique_ptr<Device> device = MakeRanks(ranks);
    const auto table = device->MakeLinear(spec, ReaderOf(w, spec.cols), {});
    const auto x = device->Allocate(3 * 32 * sizeof(float)), y = device->Allocate(3 * 30 * sizeof(float));
    const std::vector<int32_t> ids = {29, 0, 13};
    BatchRow row;
    row.prefill = true;
    row.prompt_length = row.token_count = 3;
    device->BeginStep({.token_ids = ids, .rows = {&row, 1}});
    const Matrix in = {x->data(), DType::kF32, 3, 32}, out = {y->data(), DType::kF32, 3, 30};
    device->Embed(table.get(), 2.0f, nullptr, in);
    device->Linear(*table, in, out, /*accumulate=*/false);
    rows[ranks > 1] = Download(*device, in);
    logits[ranks > 1] = Download(*device, out);
    EXPECT_EQ(rows[ranks > 1].front(), 2 * w[29 * 32]);
  }
  ExpectBits(rows[1], rows[0]);
  ExpectBits(logits[1], logits[0]);
}

TEST(ShardedDevice, AnOpThatFailsOnOneRankFails) {
  const std::unique_ptr<Device> device = MakeRanks(3);
  EXPECT_THROW(device->Allocate(size_t{1} << 60), std::bad_alloc);
  const LinearSpec spec = {.rows = 30, .cols = 32};
  // The row is rank 1's.
  const RowReader reader = [](int64_t begin, int64_t end, float*) {
    if (begin <= 15 && 15 < end) throw std::bad_alloc();
  };
  EXPECT_THROW(device->MakeLinear(spec, reader, {}), std::bad_alloc);
  ExpectBits(MultiplyAll(*device, spec, 2), MultiplyAll(*MakeRanks(1), spec, 2));
}

}  // namespace
}  // namespace hydrant
