#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cuda/eviction/eviction.h"
#include "tests/gpu/bench_cache.h"
#include "tests/gpu/bench_groups.h"

namespace hydrant::cuda {
namespace {

std::string OfLayers(int32_t layers) { return layers == 1 ? "one layer" : std::to_string(layers) + " layers"; }

void Cuts(Bench& bench, int32_t from, int32_t to) {
  BenchCache cache(bench, 1, from);
  EvictionPolicy policy;
  policy.evicts = true;
  policy.recent = to / 2;
  policy.heavy = to - policy.recent;
  const auto blocks = bench.Upload(cache.tables[0]);
  const auto* table = static_cast<const int32_t*>(blocks->data());
  const std::vector<Cut> cuts = {{from, to, from, 0, policy, table, table}};
  const auto on_device = bench.Upload(cuts);
  constexpr int32_t kBlocks = 64;
  const CudaBuffer scratch(CutScratchBytes(from) * kBlocks);
  const double seconds = bench.Time(
      [&](int) {
        LaunchCuts(bench.stream(), static_cast<const Cut*>(on_device->data()), 1, from, kBlocks,
                   static_cast<std::byte*>(scratch.data()), cache.view);
      },
      /*repeats=*/15, /*run=*/1, [&] { cache.RestoreScores(bench); });
  // Every KV head must hold the newest tokens, and those of the others with the highest scores.
  const auto positions = bench.Read<int32_t>(cache.view.position, cache.layout.score_count());
  bool correct = true;
  for (int32_t head = 0; head < kKvHeads; ++head) {
    std::vector<std::pair<float, int32_t>> candidates;  // the best first: score downwards, then position
    for (int32_t slot = 0; slot < from - policy.recent; ++slot) {
      candidates.emplace_back(-cache.scores[cache.ScoreAt(0, 0, head, slot)], slot);
    }
    std::sort(candidates.begin(), candidates.end());
    std::vector<int32_t> expected, kept;
    for (int32_t i = 0; i < policy.heavy; ++i) expected.push_back(candidates[static_cast<size_t>(i)].second);
    for (int32_t slot = from - policy.recent; slot < from; ++slot) expected.push_back(slot);
    for (int32_t slot = 0; slot < to; ++slot) kept.push_back(positions[cache.ScoreAt(0, 0, head, slot)]);
    std::sort(expected.begin(), expected.end());
    std::sort(kept.begin(), kept.end());
    correct = correct && kept == expected;
  }
  bench.Bytes("L2: cut of one layer, " + std::to_string(from) + " to " + std::to_string(to), seconds,
              9.0 * from * kKvHeads * 8, correct);
}

// What `count` cuts, a block apart, would cost a sequence.
void Losses(Bench& bench, int32_t live, int32_t count, int32_t layers) {
  BenchCache cache(bench, 1, live, layers);
  EvictionPolicy policy;
  policy.evicts = true;
  policy.recent = live / 2;
  policy.heavy = live - policy.recent;
  std::vector<Weighing> cuts;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t keep = live - (i + 1) * kBlockSlots;
    cuts.push_back({keep, policy.Lowered(keep).recent});
  }
  const size_t pairs = static_cast<size_t>(layers) * kKvHeads;
  const auto at = bench.Upload(cuts), score_blocks = bench.Upload(cache.tables[0]);
  const CudaBuffer out(pairs * cuts.size() * sizeof(double));
  bench.Poison(out);
  const LossCase loss = {live,
                         live,
                         true,
                         static_cast<const Weighing*>(at->data()),
                         count,
                         static_cast<const int32_t*>(score_blocks->data()),
                         static_cast<double*>(out.data())};
  const double seconds = bench.Time([&](int) { LaunchLosses(bench.stream(), loss, cache.view); });
  const auto losses = bench.Read<double>(out.data(), pairs * cuts.size());
  bool correct = true;
  for (const size_t pair : {size_t{0}, pairs - 1}) {
    for (const size_t cut : {size_t{0}, cuts.size() / 2, cuts.size() - 1}) {
      const auto layer = static_cast<int32_t>(pair / kKvHeads), head = static_cast<int32_t>(pair % kKvHeads);
      std::vector<double> candidates;
      double all = 0.0, dropped = 0.0;
      for (int32_t slot = 0; slot < live; ++slot) {
        const auto score = static_cast<double>(cache.scores[cache.ScoreAt(0, layer, head, slot)]);
        all += score;
        if (slot < live - cuts[cut].recent) candidates.push_back(score);
      }
      std::sort(candidates.begin(), candidates.end());
      for (int32_t i = 0; i < live - cuts[cut].keep; ++i) dropped += candidates[static_cast<size_t>(i)];
      correct = correct && std::abs(losses[pair * cuts.size() + cut] - dropped / all) < 1e-6;
    }
  }
  bench.Bytes("L2: losses of " + std::to_string(count) + " cuts of " + std::to_string(live) + ", " + OfLayers(layers),
              seconds, 8.0 * live * static_cast<double>(pairs), correct);
}

// Half of them zero, half of them from another score block.
void ScoreBlocks(Bench& bench, int32_t count, int32_t layers) {
  BenchCache cache(bench, 1, count * 2 * kBlockSlots, layers);
  std::vector<ScoreInit> inits;
  for (int32_t i = 0; i < count; ++i) inits.push_back({i % 2 == 0 ? -1 : count + i, i, 1000 + i * kBlockSlots});
  const auto at = bench.Upload(inits);
  const double seconds = bench.TimeCaptured(
      [&](int) { LaunchInitScores(bench.stream(), inits, static_cast<const ScoreInit*>(at->data()), cache.view); });
  const auto scores = bench.Read<float>(cache.view.score, cache.layout.score_count());
  const auto positions = bench.Read<int32_t>(cache.view.position, cache.layout.score_count());
  const size_t slots = scores.size() / static_cast<size_t>(cache.each);  // of a score block
  bool correct = true;
  for (size_t i = 0; i < scores.size(); ++i) {
    const size_t block = i / slots;
    if (block >= static_cast<size_t>(count)) {
      correct = correct && scores[i] == cache.scores[i] && positions[i] == cache.positions[i];
      continue;
    }
    const ScoreInit& init = inits[block];
    const float score = init.from < 0 ? 0.0f : cache.scores[static_cast<size_t>(init.from) * slots + i % slots];
    correct = correct && scores[i] == score && positions[i] == init.position + static_cast<int32_t>(i % kBlockSlots);
  }
  bench.Bytes("L2: " + std::to_string(count) + " score blocks, " + OfLayers(layers), seconds,
              10.0 * static_cast<double>(slots) * count, correct);
}

void Copies(Bench& bench, int32_t count, int32_t layers) {
  BenchCache cache(bench, 1, count * 2 * kBlockSlots, layers);
  std::vector<BlockCopy> copies;
  for (int32_t i = 0; i < count; ++i) copies.push_back({i, i, count + i});
  const auto at = bench.Upload(copies);
  const double seconds = bench.Time(
      [&](int) { LaunchCopyBlocks(bench.stream(), static_cast<const BlockCopy*>(at->data()), count, cache.view); });
  const auto same = [&](const void* data, size_t block_bytes) {
    const size_t half = block_bytes * static_cast<size_t>(count);
    const auto bytes = bench.Read<std::byte>(data, 2 * half);
    return std::equal(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(half),
                      bytes.begin() + static_cast<ptrdiff_t>(half));
  };
  const size_t tiles = static_cast<size_t>(layers) * kKvHeads * kBlockSlots;
  const bool correct = same(cache.view.k, tiles * kDim * 2) && same(cache.view.v, tiles * kDim * 2) &&
                       same(cache.view.score, tiles * 4) && same(cache.view.position, tiles * 4);
  bench.Bytes("copy of " + std::to_string(count) + " blocks, " + OfLayers(layers), seconds,
              2.0 * static_cast<double>(cache.layout.block_bytes()) * count, correct);
}

// A session's blocks on their way to the host and back, against a copy of one piece.
void Parking(Bench& bench, int32_t live) {
  BenchCache cache(bench, 1, live);
  const auto table = bench.Upload(cache.tables[0]);
  const auto bytes = static_cast<int64_t>(cache.tables[0].size() * cache.layout.block_bytes());
  const PinnedBuffer host(static_cast<size_t>(bytes));
  const CudaBuffer one_piece(static_cast<size_t>(bytes));
  const auto* ids = static_cast<const int32_t*>(table->data());
  const PackedBlocks range = {ids, ids, 0, bytes, host.data()};
  const size_t block_bytes = cache.layout.block_bytes(), k_bytes = cache.layout.kv_bytes() / cache.tables[0].size();
  for (const bool back : {false, true}) {
    const double limit = bench.Time([&](int) {
      CheckCuda(
          back ? cudaMemcpyAsync(one_piece.data(), host.data(), host.bytes(), cudaMemcpyHostToDevice, bench.stream())
               : cudaMemcpyAsync(host.data(), one_piece.data(), host.bytes(), cudaMemcpyDeviceToHost, bench.stream()),
          "cudaMemcpyAsync");
    });
    if (back) bench.Poison(*cache.k);
    const double seconds = bench.Time([&](int) {
      if (back) {
        LaunchUnpack(bench.stream(), range, 1.0f, cache.view);
      } else {
        LaunchPack(bench.stream(), range, cache.view);
      }
    });
    // The keys of the last block, here and there.
    const size_t last = cache.tables[0].size() - 1;
    const auto keys = bench.Read<std::byte>(static_cast<std::byte*>(cache.view.k) + last * k_bytes, k_bytes);
    const auto* expected = reinterpret_cast<const std::byte*>(cache.host_k.data()) + last * k_bytes;
    const bool same = std::equal(keys.begin(), keys.end(), host.data() + last * block_bytes) &&
                      std::equal(keys.begin(), keys.end(), expected);
    bench.Bus((back ? "restore " : "park ") + std::to_string(live) + " slots of one layer", seconds,
              static_cast<double>(bytes), limit, same);
  }
}

}  // namespace

void BenchCaches(Bench& bench) {
  const int32_t layers = bench.small() ? 2 : 32;
  Cuts(bench, bench.small() ? 96 : 32768, bench.small() ? 48 : 2048);
  Losses(bench, bench.small() ? 80 : 2048, bench.small() ? 3 : 64, layers);
  ScoreBlocks(bench, bench.small() ? 3 : 128, layers);
  Copies(bench, bench.small() ? 2 : 64, layers);
  Parking(bench, bench.small() ? 40 : 32768);
}

}  // namespace hydrant::cuda
