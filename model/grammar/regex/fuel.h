// Fuel bounds the work that a client's text may cause, in units that do not depend on the machine: the same text is taken or refused
// everywhere. One unit is about 20 ns.
//
// Thread: the one that spends it.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_FUEL_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_FUEL_H_

#include <cstdint>

namespace hydrant::grammar {

struct Fuel {
  // 5 M units are a tenth of a second: what one schema may cost before it is refused.
  static constexpr int64_t kCompile = 5'000'000;

  int64_t left = kCompile;

  // False, for ever after, once more was asked for than was left.
  bool Spend(int64_t units) {
    left = units > left ? 0 : left - units;
    return left > 0;
  }
  bool empty() const { return left <= 0; }
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_FUEL_H_
