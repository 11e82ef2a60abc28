// KvReading is a copy of one session's KV as the engine has it, for the live view.
//
// Thread: any (plain data); the engine fills it (EngineCore::ReadKv).
#ifndef HYDRANT_SERVER_ENGINE_KV_READING_H_
#define HYDRANT_SERVER_ENGINE_KV_READING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "block_manager/kv_budget.h"
#include "kernels/eviction_policy.h"
#include "model/run/executor.h"

namespace hydrant {

// Most bytes of a KvReading's scores and positions: 24,000 slots of the default model, 8,000 with 32 layers of 8 KV heads.
inline constexpr int64_t kKvReadingBytesMax = 16 << 20;

// A session's KV between two steps, for the live view.
struct KvReading {
  enum class Source : uint8_t {
    kNone,     // the engine has nothing of it
    kRunning,  // a turn is being computed
    kParked,
  };
  Source source = Source::kNone;
  // A turn waits: for admission, with so many sequences of its tenant before it in the line; or for its KV to be back,
  // with 0.
  std::optional<int32_t> ahead;
  // kRunning: its KV is on its way out of the pool, outside, or on its way back: no step computes it until that is over.
  bool aside = false;
  uint64_t turn = 0;      // kParked: which turn left it
  int32_t computed = 0;   // logical length
  int32_t live = 0;       // slots; one of a running sequence at its budget is the victim, which the next token replaces
  int32_t blocks = 0;     // kRunning: held
  KvBudget budget;        // kRunning: in force
  EvictionPolicy policy;  // kRunning: likewise
  int32_t policy_label = 0;        // kRunning: DecodeOptions::policy_label
  std::vector<int32_t> tokens;     // kRunning: the prompt and what was generated
  int64_t read_us = 0;             // that the engine thread spent on it
  bool score_blocks_read = false;  // `score_blocks` holds the scores and positions of `live` slots
  KvScores score_blocks;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_KV_READING_H_
