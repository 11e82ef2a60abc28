// TokenMasks says which tokens of a vocabulary may come next in a state of a grammar.
//
// What is inside a scalar or a key does not depend on what is around it: the tokens that stay inside are remembered by what is left
// of the scalar, with the places in the trie where it may end, and only from there on the machine reads on. So it is with texts and free
// text of a script, by what is left of the text or by what is begun of a trigger. A mask as a whole is remembered by its state.
//
// Thread: one at a time, with the grammar.
#ifndef HYDRANT_MODEL_GRAMMAR_TOKEN_MASKS_H_
#define HYDRANT_MODEL_GRAMMAR_TOKEN_MASKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/grammar/grammar.h"
#include "model/grammar/regex/lexeme_facts.h"
#include "model/grammar/regex/steady_map.h"
#include "model/grammar/token_trie.h"

namespace hydrant::grammar {

class TokenMasks {
 public:
  TokenMasks(std::shared_ptr<Grammar> grammar, std::shared_ptr<const TokenTrie> trie);

  // Bit id % 32 of word id / 32 is set if the token may come next: that is, if Advance allows its bytes. Ends of the answer are not
  // among them (Grammar::Accepts). kLimit: the work of a mask has an end, and what is allowed is not known.
  // REQUIRES: out has trie.words() words.
  // Work is taken from `fuel`, and one mask takes no more than that; what is remembered costs nothing.
  Grammar::Verdict Mask(GrammarState& state, std::span<uint32_t> out, Fuel& fuel);
  Grammar::Verdict Mask(GrammarState& state, std::span<uint32_t> out) {
    Fuel fuel{kMaskFuel};
    return Mask(state, out, fuel);
  }

  // The same without tokens behind which the answer cannot end with at most `bytes` more. Where that is not known of a token
  // (Grammar::BytesToEnd), it is not among them.
  Grammar::Verdict MaskWithin(GrammarState& state, int64_t bytes, std::span<uint32_t> out, Fuel& fuel);
  Grammar::Verdict MaskWithin(GrammarState& state, int64_t bytes, std::span<uint32_t> out) {
    Fuel fuel{2 * kMaskFuel};  // it is two: of what is allowed, and of what that leaves to be said
    return MaskWithin(state, bytes, out, fuel);
  }

  size_t bytes() const { return remembered_bytes_; }  // about what is remembered takes

  // The same, token by token in the trie with nothing remembered: what Mask is held to.
  Grammar::Verdict PlainMask(GrammarState& state, std::span<uint32_t> out);

 private:
  using Words = std::vector<uint32_t>;
  struct Inside {
    Words tokens;  // that stay inside, whatever is around
    // Nodes with whose byte it ends, or before which it has ended, and what was left of it there; also those behind which few texts of a
    // key are left, as it may be that all of them were there. Of a script the nodes with whose byte it may end, and 0, or the trigger.
    std::vector<std::pair<uint32_t, RegexId>> ends;
    // With so many characters of a string each token leads to an end, the quote included. Nothing where nobody asked.
    std::optional<int64_t> characters;
  };

  static constexpr size_t kRememberedBytesMax = size_t{8} << 20;
  // Some 40 ms: a step waits for its masks. None of 131,863 masks of schemas in the wild takes longer than 7 ms.
  static constexpr int64_t kMaskFuel = 2'000'000;

  // REQUIRES: inside a scalar or an extra key.
  bool AddConfiguration(const Configuration& from, Fuel& fuel, std::span<uint32_t> out);
  const Inside* InsideOf(const Configuration& from, Fuel& fuel);
  // Fill in what is inside of a scalar, or of a key, where `lexeme` is left of it; of a string whose characters are counted.
  void WalkLexeme(RegexId lexeme, bool is_key, Fuel& fuel, Inside& inside);
  const Inside* InsideOfRest(const LexemeFacts::Counted& counted, Fuel& fuel);  // nullptr: not that, or the fuel ends
  void WalkCounted(RegexId lexeme, const LexemeFacts::Counted& whole, Fuel& fuel, Inside& inside);
  RegexId Widened(RegexId lexeme, bool is_key, Fuel& fuel);  // the same for all tokens
  // Whether all text at a node and below leaves `left` as it is. False also where to find that out is not worth it.
  bool IsLoop(RegexId left, size_t node, Fuel& fuel);
  void TextTo(size_t node, std::vector<uint8_t>& bytes) const;  // without its own byte
  // The same for what a script reads. REQUIRES: inside a text, or free text that only triggers end.
  bool IsInsideScript(const Configuration& from) const;
  bool AddScript(const Configuration& from, Fuel& fuel, std::span<uint32_t> out);
  const Inside* InsideOfText(const Configuration& from, Fuel& fuel);
  const Inside* InsideOfFree(const Configuration& from, Fuel& fuel);
  // Adds the tokens that go on with `behind` below the nodes of `ends` whose number is `which`.
  bool AddBehind(const Inside& inside, int32_t which, const Configurations& behind, Fuel& fuel,
                 std::span<uint32_t> out);
  const Inside* Remember(std::unique_ptr<Inside>& place, std::unique_ptr<Inside> inside);
  // Adds all tokens below the nodes [begin, end) that are allowed behind `from`, where the first `depth` bytes are read.
  bool WalkNodes(size_t begin, size_t end, size_t depth, std::span<const Configuration> from, Fuel& fuel,
                 std::span<uint32_t> out);
  // What tokens leave to be said, where it is more than before and the rest of a character.
  struct Needs {
    int64_t here = 0;
    int64_t longest = 0;                             // bytes of a token and what it leaves, together
    std::vector<std::pair<int64_t, int32_t>> above;  // bytes and token, the most first
  };
  // The same configurations without what counts the characters of strings: it forbids nothing if what tokens leave is no longer than the
  // second number.
  std::pair<Configurations, int64_t> WithoutCounts(const Configurations& from, Fuel& fuel);
  const Needs* NeedsOf(const Configurations& from, Fuel& fuel);  // nullptr: the fuel ends
  // Calls on_token(token, bytes) of all allowed ones that leave more than `most`; `prune`: also of some that are not allowed.
  // `here`: what `from` leaves. `longest` becomes what it is of Needs, if it is more.
  template <typename OnToken>
  bool WalkNeeds(const Configurations& from, int64_t here, int64_t most, bool prune, Fuel& fuel,
                 const OnToken& on_token, int64_t& longest);
  static RegexId SharedLexeme(const Configurations& from);  // kNothing: there is none
  int64_t StepShared(const Configurations& from, RegexId shared, uint8_t byte, Fuel& fuel, Configurations& to);
  bool PlainBringsNearer(const Configurations& from, const TokenTrie::Node& node, Fuel& fuel);
  static void AddTokens(std::span<const int32_t> tokens, std::span<uint32_t> out);
  // False where `fuel` ends.
  bool Follow(GrammarState& state, Fuel& fuel);

  std::shared_ptr<Grammar> grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  std::shared_ptr<JsonMachine> machine_;  // that what is remembered speaks of
  SteadyMap<std::vector<Configuration>, Words> masks_;
  SteadyMap<std::vector<Configuration>, Needs> needs_;
  static constexpr int32_t kScalars = -1, kKeys = -2, kTexts = -3, kMeasured = -4;
  // By what is left, and whether it is a scalar, a key, a text, or a string whose characters somebody counts; or by the state of triggers, and their node.
  SteadyMap<std::pair<int32_t, int32_t>, std::unique_ptr<Inside>> insides_;
  std::optional<LexemeFacts> facts_;  // of machine_
  size_t remembered_bytes_ = 0;
  std::vector<Configurations> stack_;
  std::vector<RegexId> lexemes_, counts_;
  std::vector<uint8_t> way_;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_TOKEN_MASKS_H_
