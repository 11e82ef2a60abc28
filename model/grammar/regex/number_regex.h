// NumberRegex is the expression of all JSON numbers of a set that a schema describes.
//
// Where a bound or a divisor is given, numbers are written without an exponent; whole numbers always are, and without a point.
//
// Thread: the one that uses the arena.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_NUMBER_REGEX_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_NUMBER_REGEX_H_

#include <optional>
#include <vector>

#include "model/grammar/regex/decimal.h"
#include "model/grammar/regex/regex_arena.h"

namespace hydrant::grammar {

struct Bound {
  Decimal value;
  bool exclusive = false;
};

struct NumberSet {
  bool whole = false;
  std::optional<Bound> least, most;
  std::vector<Decimal> divisors;  // above 0

  // The tighter of two bounds stays.
  void AtLeast(const Bound& bound);
  void AtMost(const Bound& bound);
};

// A divisor is supported if it has at most 9 digits in all.
bool DivisorIsSupported(const Decimal& divisor);

// REQUIRES: divisors are supported. kNothing where the bounds leave nothing; it may be empty for other reasons, too.
RegexId NumberRegex(RegexArena& arena, const NumberSet& numbers);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_NUMBER_REGEX_H_
