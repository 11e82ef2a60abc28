// SimDrafter guesses with the oracle's help, well or badly.
#ifndef HYDRANT_TESTS_SIM_FAKE_DRAFTS_H_
#define HYDRANT_TESTS_SIM_FAKE_DRAFTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/drafts/drafter.h"
#include "tests/sim/random.h"
#include "tests/sim/sim_request.h"

namespace hydrant::sim {

class SimDrafter : public Drafter {
 public:
  // kAnything: tokens outside the vocabulary, too. All go on behind the text's end.
  enum class Guesses : uint8_t { kAlways, kNever, kOften, kButTheLast, kFew, kAnything };
  static constexpr int32_t kKinds = 6;

  // The request outlives it.
  SimDrafter(const SimRequest& request, int32_t vocab)
      : request_(request),
        vocab_(vocab),
        random_(Mix(request.id() + 91)),
        guesses_(static_cast<Guesses>(random_.Below(kKinds))) {}

  std::span<const int32_t> Propose(int32_t most, int32_t rows) override;
  void Push(int32_t) override {}
  void Learn(int32_t, int32_t) override {}

 private:
  const SimRequest& request_;
  const int32_t vocab_;
  Random random_;
  const Guesses guesses_;
  std::vector<int32_t> proposal_;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_FAKE_DRAFTS_H_
