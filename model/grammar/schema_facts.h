// SchemaFacts sums up what the schemas of one branch say of scalars, and makes expressions of it.
//
// Thread: the one that compiles.
#ifndef HYDRANT_MODEL_GRAMMAR_SCHEMA_FACTS_H_
#define HYDRANT_MODEL_GRAMMAR_SCHEMA_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/regex/char_class.h"
#include "model/grammar/regex/lazy_dfa.h"
#include "model/grammar/regex/number_regex.h"
#include "model/grammar/regex/steady_map.h"
#include "model/grammar/schema_branches.h"
#include "model/grammar/schema_tree.h"
#include "model/grammar/shape.h"

namespace hydrant::grammar {

struct SchemaFacts {
  uint8_t types = kAllTypes;
  bool not_whole = false;  // numbers that are not whole ones alone
  NumberSet numbers;
  std::vector<Decimal> not_multiples;
  std::vector<RegexId> texts;  // that strings belong to, as JSON writes them without quotes
  int64_t length_least = 0, length_most = kNoLimit;
  std::optional<std::vector<JsonId>> values;  // scalars that are listed
  std::vector<JsonId> excluded;
};

// Reads schemas of one tree; remembers patterns that it has read.
class FactReader {
 public:
  FactReader(SchemaTree& tree, LazyDfa& dfa, Fuel& fuel, SchemaBranches& branches, bool unknown_formats_pass)
      : tree_(tree), dfa_(dfa), fuel_(fuel), branches_(branches), unknown_formats_pass_(unknown_formats_pass) {}

  // A refusal goes to `branches`.
  SchemaFacts Read(const SchemaBranch& branch);
  // Whole JSON texts of all scalars that fit; kNothing where there are none.
  RegexId Scalars(const SchemaFacts& facts);
  // What may stand between the quotes of a string that fits, each character in one spelling.
  RegexId Texts(const SchemaFacts& facts);

  // A count such as minItems, or `fallback` where the schema has none.
  int64_t Count(JsonId schema, std::string_view keyword, int64_t fallback);
  // A pattern, searched for in a string or a key.
  RegexId Pattern(JsonId where, std::string_view keyword, const std::string& pattern);
  static bool KnowsLineEnds(const std::string& pattern);
  // Texts without the pattern, whoever looks for it: a line end is what '.' and '$' are read differently by, so that there is none in
  // them where the pattern has one of these.
  RegexId WithoutPattern(JsonId where, std::string_view keyword, const std::string& pattern);
  RegexId AnyKey() { return AnyText(dfa_.arena(), TextEncoding::kJsonString); }

 private:
  void ReadNumbers(JsonId schema, SchemaFacts& facts);
  void ReadStrings(JsonId schema, SchemaFacts& facts);
  void ReadFormat(JsonId schema, SchemaFacts& facts);
  void ReadValues(JsonId schema, SchemaFacts& facts);
  std::optional<Decimal> Number(JsonId schema, std::string_view keyword);
  RegexId FormatTexts(std::string_view name);
  RegexId Numbers(const SchemaFacts& facts);
  RegexId FreeString();
  RegexId Listed(const SchemaFacts& facts, RegexId numbers, RegexId texts);
  bool IsExcluded(const SchemaFacts& facts, JsonKind kind) const;

  SchemaTree& tree_;
  LazyDfa& dfa_;
  Fuel& fuel_;
  SchemaBranches& branches_;
  bool unknown_formats_pass_;
  SteadyMap<std::string, RegexId> patterns_, formats_;
  RegexId free_string_ = -1;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_SCHEMA_FACTS_H_
