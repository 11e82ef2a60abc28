// RegexArena holds regular expressions over bytes. Equal expressions have one id, and every constructor simplifies, so that the
// derivatives of an expression are few (lazy_dfa.h takes them). Besides union, concatenation and repetition there are intersection and
// complement; a counted repetition is one node whatever its counts are; a set of texts is one node whatever its size is; and so are
// the multiples of a number, written in decimal digits.
//
// Invariants:
// 1. Children have smaller ids than their parents: whatever walks a whole expression goes by ids, and never recurses.
// 2. A node that is `plain` has a text: nothing in it has to be searched for one.
//
// Thread: one at a time.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_REGEX_ARENA_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_REGEX_ARENA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/regex/byte_set.h"
#include "model/grammar/regex/steady_map.h"

namespace hydrant::grammar {

using RegexId = int32_t;
inline constexpr RegexId kNothing = 0;    // no text at all
inline constexpr RegexId kEmptyText = 1;  // the text of no bytes
inline constexpr RegexId kAnything = 2;   // every text of any bytes
inline constexpr int32_t kUnbounded = std::numeric_limits<int32_t>::max();

// How the characters of a text are written in bytes.
enum class TextEncoding : uint8_t {
  kUtf8,
  kJsonString,  // between the quotes of a JSON string, each character in one way: UTF-8, short escapes, else \u00xx
};

enum class RegexKind : uint8_t { kNone, kEmpty, kBytes, kConcat, kOr, kAnd, kNot, kRepeat, kStrings, kMultiple };

struct RegexNode {
  RegexKind kind = RegexKind::kNone;
  bool nullable = false;  // the empty text belongs to it
  bool plain = false;
  uint8_t whole = 0;  // bit i: all its texts are whole characters in TextEncoding i
  // kBytes: index of the set. kConcat: both parts. kOr, kAnd: first and count in the lists. kNot: what. kRepeat: what, least, most.
  // kStrings: table, range of it, bytes already read. kMultiple: of what, digits of the fraction, remainder so far, place.
  int32_t a = 0, b = 0, c = 0, d = 0;
  int32_t least = 0;     // no text of it has fewer bytes, or it has more than kLeastMax
  bool endless = false;  // known to have texts longer than any number
};
inline constexpr int32_t kLeastMax = (1 << 30) - 1;

class RegexArena {
 public:
  RegexArena();

  RegexId Bytes(const ByteSet& set);
  RegexId Byte(uint8_t byte);
  RegexId Literal(std::string_view bytes);
  RegexId Concat(RegexId a, RegexId b);
  RegexId Concat(std::span<const RegexId> parts);
  RegexId Or(std::vector<RegexId> parts);
  RegexId And(std::vector<RegexId> parts);
  RegexId Not(RegexId a);
  // `least` to `most` times (kUnbounded: no end). REQUIRES: 0 <= least <= most.
  RegexId Repeat(RegexId a, int32_t least, int32_t most);
  RegexId Star(RegexId a) { return Repeat(a, 0, kUnbounded); }
  // One of these texts, whose characters are whole in every encoding that `whole` has a bit for. Repeated ones count once.
  RegexId Strings(std::vector<std::string> texts, uint8_t whole);
  // A number without sign and exponent, written as JSON does, that is k * of / 10^scale for some whole k, with at most `scale` digits
  // behind the point. REQUIRES: of >= 1, 0 <= scale <= 18.
  RegexId Multiple(int32_t of, int32_t scale);

  // Says that all texts of `id` are whole characters of an encoding, and that all of its characters are in `star`, which unions and
  // intersections then absorb. REQUIRES: no parent of `id` exists.
  void MarkWhole(RegexId id, TextEncoding encoding);
  void SetStar(RegexId star, TextEncoding encoding) { stars_[static_cast<size_t>(encoding)] = star; }
  RegexId star(TextEncoding encoding) const { return stars_[static_cast<size_t>(encoding)]; }

  const RegexNode& node(RegexId id) const { return nodes_[static_cast<size_t>(id)]; }
  bool nullable(RegexId id) const { return node(id).nullable; }
  size_t size() const { return nodes_.size(); }
  std::span<const RegexId> list(RegexId id) const;  // of a union or intersection
  const ByteSet& bytes(RegexId id) const { return sets_[static_cast<size_t>(node(id).a)]; }
  // What is left of a set of texts whose first d bytes were read, and then `byte`; or of a number.
  RegexId StringsAfter(RegexId id, uint8_t byte);
  RegexId MultipleAfter(RegexId id, uint8_t byte);
  // An expression without parts, of an arena that this one was copied from or the other way round.
  RegexId AdoptLeaf(const RegexNode& leaf) { return Intern(leaf); }
  // The text of a table that ends where a kStrings node stands. REQUIRES: it is nullable.
  int32_t StringIndex(RegexId id) const { return node(id).b; }
  const std::string& StringAt(int32_t table, int32_t index) const {
    return (*tables_[static_cast<size_t>(table)])[static_cast<size_t>(index)];
  }

  // Bytes that no expression tells apart form a class. Their number grows while expressions are made.
  int classes() const { return static_cast<int>(representatives_.size()); }
  int class_of(uint8_t byte) const { return class_of_[byte]; }
  uint8_t representative(int byte_class) const { return representatives_[static_cast<size_t>(byte_class)]; }

 private:
  RegexId Intern(RegexNode node, std::span<const RegexId> list = {});
  void GrowIndex();
  RegexId StringsNode(int32_t table, int32_t first, int32_t last, int32_t depth);
  RegexId MultipleNode(int32_t of, int32_t scale, int32_t remainder, int32_t place);
  void MergeRepeats(std::vector<RegexId>& parts);
  bool ExcludeEachOther(std::span<const RegexId> parts) const;
  bool CountsEndless(std::span<const RegexId> parts) const;
  bool AbsorbByStar(std::vector<RegexId>& parts, bool keep_star);
  void Flatten(RegexKind kind, std::vector<RegexId>& parts);
  void SplitClasses(const ByteSet& set);
  uint64_t HashOf(const RegexNode& node, std::span<const RegexId> list) const;

  std::vector<RegexNode> nodes_;
  std::vector<RegexId> lists_;
  std::vector<ByteSet> sets_;
  SteadyMap<std::array<uint64_t, 4>, int32_t> set_index_;
  std::vector<std::shared_ptr<const std::vector<std::string>>> tables_;
  std::vector<uint8_t> table_whole_;
  std::vector<int32_t> index_;  // open addressing, a power of two, -1: free
  std::array<uint8_t, 256> class_of_ = {};
  std::vector<uint8_t> representatives_ = {0};
  std::array<RegexId, 2> stars_ = {-1, -1};
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_REGEX_ARENA_H_
