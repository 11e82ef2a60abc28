// LexemeFacts is what masks ask of the rest of a scalar, key or text, remembered: which characters it takes whatever they are, which
// leave it as it is, and how long its texts are.
//
// Thread: one at a time, with the automaton.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_LEXEME_FACTS_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_LEXEME_FACTS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/grammar/regex/fuel.h"
#include "model/grammar/regex/lazy_dfa.h"
#include "model/grammar/regex/steady_map.h"

namespace hydrant::grammar {

// Kinds of characters that expressions often tell apart: each small letter, and a few dozen of others by their first byte.
inline constexpr int kByteKinds = 59;
inline constexpr int kNoKind = 63;  // of bytes with which no character begins
int KindOfByte(uint8_t first);

class LexemeFacts {
 public:
  explicit LexemeFacts(LazyDfa& dfa) : dfa_(dfa) {}

  // As many characters of plain text as may come next at least, whatever they are; kUnbounded: any number.
  int32_t PlainCharacters(RegexId left, Fuel& fuel);

  // The kinds of which every character leads from `left` back to `left`. Where it is not known yet it is found out if
  // `ask`.
  uint64_t Loops(RegexId left, bool ask, Fuel& fuel);

  // What takes the same `bytes` bytes as `left` and may end behind the same, and is the same for many counts: a loop that so many bytes
  // do not bring to its end has none. A loop of which then fewer than `spare` turns were left stays as it is.
  RegexId Widened(RegexId left, int32_t bytes, int32_t spare, Fuel& fuel) {
    return WidenedOf({left, bytes, spare}, fuel).left;
  }
  // The same, but what must come of a loop stays: behind so many bytes its shortest text is as long as that of `left`.
  RegexId Longer(RegexId left, int32_t bytes, Fuel& fuel) { return WidenedOf({left, bytes, kKeepLeast}, fuel).left; }
  // Within so many bytes the shortest text of `left` has no more than so many characters beyond what there is of
  // Widened(left, bytes, 0).
  int64_t CharactersCut(RegexId left, int32_t bytes, Fuel& fuel) { return WidenedOf({left, bytes, 0}, fuel).cut; }

  // A string whose characters are counted: each text is one of `rest` but for its quote, with as many characters as `count` has.
  struct Counted {
    RegexId count, rest;
  };
  // Where it is that; `left` is what is behind a whole character, the quote included.
  std::optional<Counted> Count(RegexId left);
  // True where both have a text in common for certain: one of `rest` whose characters, without the quote, `count` counts.
  bool HaveCommon(const Counted& counted, Fuel& fuel);
  // The same behind at most `characters` more that leave `rest` as it is. REQUIRES: single bytes do so, too.
  bool HaveCommonBehind(const Counted& counted, int32_t characters, Fuel& fuel);
  // Each member of a union has a text of no more characters, or `left` has, if it is none; many where that is not known.
  int64_t MostOfLeastCharacters(RegexId left, Fuel& fuel);

 private:
  // In characters, of which a text has no more than bytes; the quote is one.
  static constexpr int64_t kFar = int64_t{1} << 40;
  struct Lengths {
    int64_t least = kFar;    // its shortest text has no more
    int64_t endless = kFar;  // from here on it has texts of every length
    bool known = false;
  };
  Lengths LengthsOf(RegexId id, Fuel& fuel);
  bool TakesEveryCharacter(RegexId id, Fuel& fuel);
  struct Wide {
    RegexId left;
    int64_t cut = 0;  // characters
  };
  static constexpr int32_t kKeepLeast = -1;  // for `spare`
  // By what is left, bytes and spare turns.
  Wide WidenedOf(const std::array<int32_t, 3>& own, Fuel& fuel);
  Wide WidenedParts(RegexId left, int32_t bytes, int32_t spare, bool in_unions, Fuel& fuel);
  Wide WidenedLoop(RegexId loop, int32_t bytes, int32_t spare, Fuel& fuel);
  bool IsAllButFew(RegexId intersection, Fuel& fuel);
  bool TakesSingleBytes(RegexId id, Fuel& fuel);  // one at least
  using Ends = std::function<bool(RegexId left)>;
  // Whether all characters that begin with `lead` may come, and lead to what `ends` is true of.
  bool AllLead(RegexId from, uint8_t lead, const Ends& ends, Fuel& fuel);

  LazyDfa& dfa_;
  std::vector<int32_t> plain_characters_;  // by what is left; -1: unknown
  SteadyMap<RegexId, bool> takes_every_;
  SteadyMap<std::array<int32_t, 3>, Wide> widened_;
  std::vector<uint64_t> loops_;  // by what is left; kUnknownLoops: not known
  static constexpr uint64_t kUnknownLoops = ~uint64_t{0};
  std::vector<Lengths> lengths_;  // by what is left
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_LEXEME_FACTS_H_
