// MapTurns shares out the time that making KV maps takes: a tenant has one made at a time, and rests after it, so that however many
// of its clients look on, they take no more than a tenth of a worker thread from its streams and those of others.
//
// Thread: one at a time (the owner locks).
#ifndef HYDRANT_SERVER_LIVE_VIEW_MAP_TURNS_H_
#define HYDRANT_SERVER_LIVE_VIEW_MAP_TURNS_H_

#include <algorithm>
#include <cstdint>

#include "absl/container/flat_hash_map.h"

namespace hydrant {

class MapTurns {
 public:
  static constexpr int64_t kRest = 9;             // times as long as the last map took
  static constexpr int64_t kRestMaxUs = 500'000;  // where it took so long, the processor was somebody else's meanwhile

  // Whether `tenant` may have a map made now; then End has to follow. An entry is kept for each tenant that ever asked.
  bool Begin(int32_t tenant, int64_t now_us) {
    Turn& turn = turns_[tenant];
    if (turn.making || now_us < turn.rest_until_us) return false;
    turn.making = true;
    return true;
  }

  // The map took `took_us` of a worker thread.
  void End(int32_t tenant, int64_t now_us, int64_t took_us) {
    turns_[tenant] = {.making = false, .rest_until_us = now_us + std::min(kRest * took_us, kRestMaxUs)};
  }

 private:
  struct Turn {
    bool making = false;
    int64_t rest_until_us = 0;
  };
  absl::flat_hash_map<int32_t, Turn> turns_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_LIVE_VIEW_MAP_TURNS_H_
