#include "tests/gpu/bench_cache.h"

#include <numeric>
#include <utility>

namespace hydrant::cuda {

BenchCache::BenchCache(Bench& bench, int32_t sequences, int32_t slots, int32_t layers)
    : each(static_cast<int32_t>(BlocksForSlots(slots))) {
  layout = {.layers = layers,
            .blocks = sequences * each,
            .kv_heads = kKvHeads,
            .head_dim = kDim,
            .type = KvType::kBF16,
            .state_rows = sequences};
  const size_t bytes = layout.kv_bytes() / static_cast<size_t>(sequences);
  host_k = ToBf16(Normal(bytes / 2, 5));
  host_v = ToBf16(Normal(bytes / 2, 6));
  k = std::make_unique<CudaBuffer>(layout.kv_bytes());
  v = std::make_unique<CudaBuffer>(layout.kv_bytes());
  for (const auto& [to, from] : {std::pair{k.get(), &host_k}, std::pair{v.get(), &host_v}}) {
    CheckCuda(cudaMemcpyAsync(to->data(), from->data(), bytes, cudaMemcpyHostToDevice, bench.stream()),
              "cudaMemcpyAsync");
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
    const reference::Values one = Doubles(&from[ScoreAt(0, 0, 0, slot) * kDim], kDim);
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
