#include "tests/gpu/bench_cache.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace hydrant::cuda {

namespace {

constexpr float kStep = 0x1p-5f;  // of codes

// `values` become codes times kStep, which are returned in tiles.
std::vector<std::byte> Int8Tiles(const KvCacheLayout& layout, std::vector<__nv_bfloat16>* values) {
  const size_t of_tile = static_cast<size_t>(kBlockSlots) * static_cast<size_t>(layout.head_dim);
  std::vector<std::byte> tiles;
  for (size_t tile = 0; tile < values->size(); tile += of_tile) {
    const std::vector<float> scales(kBlockSlots, kStep);
    const auto* bytes = reinterpret_cast<const std::byte*>(scales.data());
    tiles.insert(tiles.end(), bytes, bytes + KvScaleBytes(KvType::kInt8));
    for (size_t i = tile; i < tile + of_tile; ++i) {
      const float code = std::clamp(std::round(__bfloat162float((*values)[i]) / kStep), -127.0f, 127.0f);
      (*values)[i] = __float2bfloat16_rn(code * kStep);
      tiles.push_back(static_cast<std::byte>(static_cast<int8_t>(code)));
    }
  }
  return tiles;
}

}  // namespace

BenchCache::BenchCache(Bench& bench, int32_t sequences, int32_t slots, int32_t layers, int32_t head_dim, KvType type)
    : each(static_cast<int32_t>(BlocksForSlots(slots))) {
  layout = {.layers = layers,
            .blocks = sequences * each,
            .kv_heads = kKvHeads,
            .head_dim = head_dim,
            .type = type,
            .state_rows = sequences};
  const size_t bytes = layout.kv_bytes() / static_cast<size_t>(sequences);
  const size_t elements = layout.score_count() / static_cast<size_t>(sequences) * static_cast<size_t>(head_dim);
  host_k = ToBf16(Normal(elements, 5));
  host_v = ToBf16(Normal(elements, 6));
  k = std::make_unique<CudaBuffer>(layout.kv_bytes());
  v = std::make_unique<CudaBuffer>(layout.kv_bytes());
  for (const auto& [to, from] : {std::pair{k.get(), &host_k}, std::pair{v.get(), &host_v}}) {
    const std::vector<std::byte> tiles = type == KvType::kInt8 ? Int8Tiles(layout, from) : std::vector<std::byte>();
    CopyAndWait(to->data(), tiles.empty() ? static_cast<const void*>(from->data()) : tiles.data(), bytes,
                bench.stream());
    for (int32_t i = 1; i < sequences; ++i) {
      CheckCuda(cudaMemcpyAsync(static_cast<std::byte*>(to->data()) + static_cast<size_t>(i) * bytes, to->data(), bytes,
                                cudaMemcpyDeviceToDevice, bench.stream()),
                "cudaMemcpyAsync");
    }
  }
  positions.resize(layout.score_count());
  scores.resize(layout.score_count());
  const size_t of_block = static_cast<size_t>(layers) * kKvHeads * kBlockSlots;
  for (size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<int32_t>(i / of_block % static_cast<size_t>(each)) * kBlockSlots +
                   static_cast<int32_t>(i % kBlockSlots);
    scores[i] = static_cast<float>(i * 2654435761u % 1000003) * 1e-3f;
  }
  position = bench.Upload(positions);
  score = bench.Upload(scores);
  victim = bench.Upload(std::vector<int32_t>(layout.victim_count()));
  view = {.layout = layout,
          .k = k->data(),
          .v = v->data(),
          .score = static_cast<float*>(score->data()),
          .position = static_cast<int32_t*>(position->data()),
          .victim = static_cast<int32_t*>(victim->data())};
  for (int32_t i = 0; i < sequences; ++i) {
    tables.emplace_back(static_cast<size_t>(each));
    std::iota(tables.back().begin(), tables.back().end(), i * each);
  }
}

reference::Values BenchCache::HeadZero(const std::vector<__nv_bfloat16>& from, int32_t count) const {
  reference::Values values;
  for (int32_t slot = 0; slot < count; ++slot) {
    const auto dim = static_cast<size_t>(layout.head_dim);
    const reference::Values one = Doubles(&from[ScoreAt(0, 0, 0, slot) * dim], dim);
    values.insert(values.end(), one.begin(), one.end());
  }
  return values;
}

size_t BenchCache::ScoreAt(int32_t sequence, int32_t layer, int32_t kv_head, int32_t slot) const {
  return static_cast<size_t>(layout.score_offset(layer, sequence * each + slot / kBlockSlots, kv_head) +
                             slot % kBlockSlots);
}

void BenchCache::RestoreScores(Bench& bench) {
  CheckCuda(cudaMemcpyAsync(view.position, positions.data(), position->bytes(), cudaMemcpyHostToDevice, bench.stream()),
            "cudaMemcpyAsync");
  CheckCuda(cudaMemcpyAsync(view.score, scores.data(), score->bytes(), cudaMemcpyHostToDevice, bench.stream()),
            "cudaMemcpyAsync");
}

}  // namespace hydrant::cuda
