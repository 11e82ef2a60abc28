#include "model/grammar/schema_facts.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "model/grammar/regex/char_class.h"
#include "model/grammar/regex/format_regex.h"
#include "model/grammar/regex/regex_parser.h"
#include "model/grammar/regex/regex_syntax.h"
#include "model/text/str_cat.h"

namespace hydrant::grammar {
namespace {

uint8_t TypeOf(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return kNullType;
    case JsonKind::kFalse:
    case JsonKind::kTrue:
      return kBoolType;
    case JsonKind::kNumber:
      return kNumberType;
    case JsonKind::kString:
      return kStringType;
    case JsonKind::kArray:
      return kArrayType;
    case JsonKind::kObject:
      return kObjectType;
  }
  return 0;
}

}  // namespace

SchemaFacts FactReader::Read(const SchemaBranch& branch) {
  SchemaFacts facts;
  facts.types = branch.types;
  for (const JsonId schema : branch.schemas) {
    if (const JsonId type = tree_.Find(schema, "type"); type != kNoJson) {
      // Whole numbers only, where "integer" stands without "number".
      std::vector<JsonId> names = tree_.at(type).items;
      if (names.empty()) names = {type};
      const auto has = [&](std::string_view name) {
        return std::ranges::any_of(names, [&](JsonId id) { return tree_.at(id).text == name; });
      };
      if (has("integer") && !has("number")) facts.numbers.whole = true;
    }
    ReadNumbers(schema, facts);
    ReadStrings(schema, facts);
    ReadFormat(schema, facts);
    ReadValues(schema, facts);
  }
  return facts;
}

std::optional<Decimal> FactReader::Number(JsonId schema, std::string_view keyword) {
  const JsonId value = tree_.Find(schema, keyword);
  if (value == kNoJson) return std::nullopt;
  const JsonNode& node = tree_.at(value);
  auto number = node.kind == JsonKind::kNumber ? Decimal::Parse(node.text) : std::nullopt;
  if (!number) {
    branches_.Refuse(RefusalKind::kInvalid, schema, keyword,
                     StrCat("'", keyword, "' must be a number of at most ", Decimal::kDigitsMax, " digits"));
  }
  return number;
}

int64_t FactReader::Count(JsonId schema, std::string_view keyword, int64_t fallback) {
  const auto number = Number(schema, keyword);
  if (!number) return fallback;
  const auto count = number->Integer();
  if (!count || *count < 0) {
    branches_.Refuse(RefusalKind::kInvalid, schema, keyword,
                     StrCat("'", keyword, "' must be a whole number from 0 on"));
    return fallback;
  }
  return *count;
}

void FactReader::ReadNumbers(JsonId schema, SchemaFacts& facts) {
  const auto is_true = [&](std::string_view keyword) {  // as draft 4 has them
    const JsonId flag = tree_.Find(schema, keyword);
    return flag != kNoJson && tree_.at(flag).kind == JsonKind::kTrue;
  };
  const auto is_bool = [&](std::string_view keyword) {
    const JsonId flag = tree_.Find(schema, keyword);
    return flag != kNoJson && (tree_.at(flag).kind == JsonKind::kTrue || tree_.at(flag).kind == JsonKind::kFalse);
  };
  if (const auto least = Number(schema, "minimum")) facts.numbers.AtLeast({*least, is_true("exclusiveMinimum")});
  if (const auto most = Number(schema, "maximum")) facts.numbers.AtMost({*most, is_true("exclusiveMaximum")});
  if (!is_bool("exclusiveMinimum")) {
    if (const auto least = Number(schema, "exclusiveMinimum")) facts.numbers.AtLeast({*least, true});
  }
  if (!is_bool("exclusiveMaximum")) {
    if (const auto most = Number(schema, "exclusiveMaximum")) facts.numbers.AtMost({*most, true});
  }
  for (const std::string_view keyword : {std::string_view("multipleOf"), kNotMultipleOf}) {
    if (keyword == kNotMultipleOf && !tree_.is_inner(schema)) continue;
    const auto divisor = Number(schema, keyword);
    if (!divisor) continue;
    if (!DivisorIsSupported(*divisor)) {
      branches_.Refuse(RefusalKind::kUnsupportedKeyword, schema, "multipleOf",
                       "'multipleOf' must be above 0 and have at most 9 digits");
      return;
    }
    (keyword == kNotMultipleOf ? facts.not_multiples : facts.numbers.divisors).push_back(*divisor);
  }
  if (tree_.is_inner(schema) && tree_.Find(schema, kNotWhole) != kNoJson) facts.not_whole = true;
}

RegexId FactReader::Pattern(JsonId where, std::string_view keyword, const std::string& pattern) {
  if (const auto found = patterns_.find(pattern); found != patterns_.end()) return found->second;
  auto parsed = ParseRegex(pattern, dfa_.arena(), TextEncoding::kJsonString, RegexExtent::kSearch, fuel_);
  if (const auto* refusal = std::get_if<RegexRefusal>(&parsed)) {
    branches_.Refuse(RefusalKind::kInvalidRegex, where, keyword,
                     StrCat("'", keyword, "', column ", refusal->column, ": ", refusal->text));
    return kNothing;
  }
  return patterns_[pattern] = std::get<RegexId>(parsed);
}

// Whether it has a `.` or a `$`, of which an escaped one, or one in brackets, is none.
bool FactReader::KnowsLineEnds(const std::string& pattern) {
  const auto read = ReadRegexSyntax(pattern);
  const auto* nodes = std::get_if<std::vector<SyntaxNode>>(&read);
  if (nodes == nullptr) return false;  // it was refused
  const CharClass any = AnyOfLine();
  return std::any_of(nodes->begin(), nodes->end(), [&](const SyntaxNode& node) {
    return node.kind == SyntaxKind::kEnd ||
           (node.kind == SyntaxKind::kClass && node.characters.ranges() == any.ranges());
  });
}

RegexId FactReader::WithoutPattern(JsonId where, std::string_view keyword, const std::string& pattern) {
  RegexArena& arena = dfa_.arena();
  const RegexId without = arena.And({AnyKey(), arena.Not(Pattern(where, keyword, pattern))});
  if (!KnowsLineEnds(pattern)) return without;
  const auto lines =
      ParseRegex(R"([^\n\r\u2028\u2029]*)", arena, TextEncoding::kJsonString, RegexExtent::kWhole, fuel_);
  return arena.And({without, std::get<RegexId>(lines)});
}

void FactReader::ReadStrings(JsonId schema, SchemaFacts& facts) {
  facts.length_least = std::max(facts.length_least, Count(schema, "minLength", 0));
  facts.length_most = std::min(facts.length_most, Count(schema, "maxLength", kNoLimit));
  for (const std::string_view keyword : {std::string_view("pattern"), kNotPattern}) {
    if (keyword == kNotPattern && !tree_.is_inner(schema)) continue;
    const JsonId value = tree_.Find(schema, keyword);
    if (value == kNoJson) continue;
    if (tree_.at(value).kind != JsonKind::kString) {
      return branches_.Refuse(RefusalKind::kInvalid, schema, "pattern", "'pattern' must be a string");
    }
    if ((facts.types & kStringType) == 0) continue;
    const std::string pattern = tree_.at(value).text;
    facts.texts.push_back(keyword == kNotPattern ? WithoutPattern(schema, "pattern", pattern)
                                                 : Pattern(schema, "pattern", pattern));
  }
}

RegexId FactReader::FormatTexts(std::string_view name) {
  const auto format = FormatOf(name);
  if (!format) return -1;
  if (const auto found = formats_.find(std::string(name)); found != formats_.end()) return found->second;
  RegexArena& arena = dfa_.arena();
  const auto parsed = ParseRegex(format->pattern, arena, TextEncoding::kJsonString, RegexExtent::kWhole, fuel_);
  RegexId texts = std::get<RegexId>(parsed);
  if (!format->also.empty()) {
    const auto also = ParseRegex(format->also, arena, TextEncoding::kJsonString, RegexExtent::kWhole, fuel_);
    texts = arena.And({texts, std::get<RegexId>(also)});
  }
  if (format->characters_max > 0) {
    texts = arena.And({texts, arena.Repeat(arena.node(AnyKey()).a, 0, format->characters_max)});
  }
  return formats_[std::string(name)] = texts;
}

void FactReader::ReadFormat(JsonId schema, SchemaFacts& facts) {
  const bool negated = tree_.is_inner(schema) && tree_.Find(schema, kNotFormat) != kNoJson;
  const JsonId value = tree_.Find(schema, negated ? kNotFormat : std::string_view("format"));
  if (value == kNoJson || tree_.at(value).kind != JsonKind::kString) return;
  const std::string name = tree_.at(value).text;
  if (const auto number = NumberFormatOf(name)) {
    // Strings fit it all the same, and numbers outside may fit a reader's.
    if (negated) {
      branches_.Refuse(RefusalKind::kUnsupportedKeyword, schema, "format",
                       StrCat("the format '", name, "' cannot be enforced below 'not'"));
    }
    if (negated || number->least.empty()) return;
    facts.numbers.AtLeast({*Decimal::Parse(number->least), false});
    facts.numbers.AtMost({*Decimal::Parse(number->most), false});
    return;
  }
  const bool known = FormatOf(name).has_value();
  // What is known is said of strings only.
  if ((facts.types & kStringType) == 0 && (known || (facts.types & kNumberType) == 0)) return;
  if (known) {
    const RegexId texts = FormatTexts(name);
    RegexArena& arena = dfa_.arena();
    facts.texts.push_back(negated ? arena.And({AnyKey(), arena.Not(texts)}) : texts);
  } else if (!unknown_formats_pass_) {
    branches_.Refuse(RefusalKind::kUnsupportedKeyword, schema, "format",
                     StrCat("the format '", name, "' is not enforced here"));
  }
}

void FactReader::ReadValues(JsonId schema, SchemaFacts& facts) {
  const auto scalars = [&](JsonId list) {
    std::vector<JsonId> values;
    for (const JsonId value : tree_.at(list).items) {
      const JsonKind kind = tree_.at(value).kind;
      if (kind != JsonKind::kArray && kind != JsonKind::kObject) values.push_back(value);
    }
    return values;
  };
  const auto restrict = [&](std::vector<JsonId> values) {
    if (facts.values) {
      std::erase_if(values, [&](JsonId value) {
        return std::ranges::none_of(*facts.values, [&](JsonId other) { return tree_.json().Equal(value, other); });
      });
    }
    facts.values = std::move(values);
  };
  if (const JsonId list = tree_.Find(schema, "enum"); list != kNoJson) {
    // Objects and arrays in it are branches of their own; in those the list says no more.
    if (facts.types & (kObjectType | kArrayType) && scalars(list).size() < tree_.at(list).items.size()) {
      if ((facts.types & ~(kObjectType | kArrayType)) != 0) restrict(scalars(list));
    } else {
      restrict(scalars(list));
      facts.types &= static_cast<uint8_t>(~(kObjectType | kArrayType));
    }
  }
  if (const JsonId single = tree_.Find(schema, "const"); single != kNoJson) {
    const JsonKind kind = tree_.at(single).kind;
    if (kind != JsonKind::kArray && kind != JsonKind::kObject) {
      restrict({single});
      facts.types &= static_cast<uint8_t>(~(kObjectType | kArrayType));
    }
  }
  const JsonId excluded = tree_.is_inner(schema) ? tree_.Find(schema, kExcluded) : kNoJson;
  if (excluded == kNoJson) return;
  for (const JsonId value : tree_.at(excluded).items) {
    const uint8_t type = TypeOf(tree_.at(value).kind);
    if ((type & (kObjectType | kArrayType) & facts.types) != 0) {
      branches_.Refuse(RefusalKind::kUnsupportedKeyword, schema, "enum", "an object or array cannot be excluded here");
    }
    facts.excluded.push_back(value);
  }
}

RegexId FactReader::FreeString() {
  if (free_string_ >= 0) return free_string_;
  // Any spelling that JSON has, with both halves of a surrogate pair.
  constexpr std::string_view kCharacters =
      R"re((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u(?:[0-9A-Ca-cEFef][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2})re"
      R"re(|[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*)re";
  RegexArena& arena = dfa_.arena();
  const auto parsed = ParseRegex(kCharacters, arena, TextEncoding::kUtf8, RegexExtent::kWhole, fuel_);
  const RegexId quote = arena.Byte('"');
  return free_string_ = arena.Concat(quote, arena.Concat(std::get<RegexId>(parsed), quote));
}

RegexId FactReader::Texts(const SchemaFacts& facts) {
  RegexArena& arena = dfa_.arena();
  const RegexId any = AnyKey();
  if ((facts.types & kStringType) == 0 || facts.length_least > facts.length_most || facts.length_least >= kUnbounded) {
    return kNothing;
  }
  std::vector<RegexId> parts = facts.texts;
  parts.push_back(any);
  if (facts.length_least > 0 || facts.length_most < kUnbounded) {
    const int64_t most = facts.length_most >= kUnbounded ? kUnbounded : facts.length_most;
    parts.push_back(
        arena.Repeat(arena.node(any).a, static_cast<int32_t>(facts.length_least), static_cast<int32_t>(most)));
  }
  std::vector<std::string> excluded;
  for (const JsonId value : facts.excluded) {
    if (tree_.at(value).kind == JsonKind::kString)
      excluded.push_back(EncodedText(tree_.at(value).text, TextEncoding::kJsonString));
  }
  if (!excluded.empty()) parts.push_back(arena.Not(arena.Strings(std::move(excluded), 3)));
  return arena.And(std::move(parts));
}

RegexId FactReader::Numbers(const SchemaFacts& facts) {
  if ((facts.types & kNumberType) == 0) return kNothing;
  RegexArena& arena = dfa_.arena();
  std::vector<RegexId> parts = {NumberRegex(arena, facts.numbers)};
  if (facts.not_whole) {  // some digit behind the point is not zero
    const RegexId digits = arena.Star(arena.Bytes(ByteSet::Range('0', '9'))),
                  some = arena.Bytes(ByteSet::Range('1', '9'));
    const RegexId fraction = arena.Concat(arena.Byte('.'), arena.Concat(digits, arena.Concat(some, digits)));
    parts.push_back(arena.Concat(arena.Repeat(arena.Byte('-'), 0, 1), arena.Concat(digits, fraction)));
  }
  for (const Decimal& divisor : facts.not_multiples) {
    NumberSet multiples;
    multiples.divisors = {divisor};
    // Without exponents, and with the digits that a multiple would have.
    NumberSet plain = facts.numbers;
    plain.AtLeast({Decimal{true, std::string(40, '9'), ""}, false});
    parts.push_back(NumberRegex(arena, plain));
    const RegexId zeros = arena.Star(arena.Byte('0'));
    const RegexId fraction = arena.Repeat(arena.Concat(arena.Byte('.'), zeros), 0, 1);
    parts.push_back(
        arena.Not(arena.Concat(NumberRegex(arena, multiples), divisor.fraction.empty() ? fraction : zeros)));
  }
  std::vector<std::string> excluded;
  for (const JsonId value : facts.excluded) {
    if (tree_.at(value).kind != JsonKind::kNumber) continue;
    if (const auto number = Decimal::Parse(tree_.at(value).text)) excluded.push_back(number->Text());
  }
  if (!excluded.empty()) {
    // 1, 1.0 and 1e0 are equal: where a number is excluded, the others are written without zeros at their end.
    const RegexId digit = arena.Bytes(ByteSet::Range('0', '9')), some = arena.Bytes(ByteSet::Range('1', '9'));
    const RegexId fraction = arena.Repeat(arena.Concat(arena.Byte('.'), arena.Concat(arena.Star(digit), some)), 0, 1);
    parts.push_back(
        arena.Concat(arena.Repeat(arena.Byte('-'), 0, 1), arena.Concat(arena.Repeat(digit, 1, kUnbounded), fraction)));
    parts.push_back(arena.Not(arena.Strings(std::move(excluded), 3)));
    parts.push_back(arena.Not(arena.Literal("-0")));
  }
  return arena.And(std::move(parts));
}

bool FactReader::IsExcluded(const SchemaFacts& facts, JsonKind kind) const {
  return std::ranges::any_of(facts.excluded, [&](JsonId value) { return tree_.at(value).kind == kind; });
}

// Those of the listed scalars that all else allows.
RegexId FactReader::Listed(const SchemaFacts& facts, RegexId numbers, RegexId texts) {
  RegexArena& arena = dfa_.arena();
  std::vector<std::string> fitting_numbers, fitting_texts;
  std::vector<RegexId> parts;
  for (const JsonId value : *facts.values) {
    const JsonNode& node = tree_.at(value);
    if ((TypeOf(node.kind) & facts.types) == 0) continue;
    if (node.kind == JsonKind::kString) {
      std::string text = EncodedText(node.text, TextEncoding::kJsonString);
      if (dfa_.Matches(texts, text, fuel_)) fitting_texts.push_back(std::move(text));
    } else if (node.kind == JsonKind::kNumber) {
      const auto number = Decimal::Parse(node.text);
      const std::string text = number ? number->Text() : node.text;
      if (dfa_.Matches(numbers, text, fuel_)) fitting_numbers.push_back(text);
    } else if (!IsExcluded(facts, node.kind)) {
      parts.push_back(arena.Literal(node.kind == JsonKind::kNull   ? "null"
                                    : node.kind == JsonKind::kTrue ? "true"
                                                                   : "false"));
    }
  }
  const RegexId quote = arena.Byte('"');
  parts.push_back(arena.Concat(quote, arena.Concat(arena.Strings(std::move(fitting_texts), 3), quote)));
  parts.push_back(arena.Strings(std::move(fitting_numbers), 3));
  return arena.Or(std::move(parts));
}

RegexId FactReader::Scalars(const SchemaFacts& facts) {
  RegexArena& arena = dfa_.arena();
  if (facts.values) return Listed(facts, Numbers(facts), Texts(facts));
  std::vector<RegexId> parts;
  const auto add = [&](uint8_t type, JsonKind kind, std::string_view text) {
    if ((facts.types & type) != 0 && !IsExcluded(facts, kind)) parts.push_back(arena.Literal(text));
  };
  add(kNullType, JsonKind::kNull, "null");
  add(kBoolType, JsonKind::kFalse, "false");
  add(kBoolType, JsonKind::kTrue, "true");
  parts.push_back(Numbers(facts));
  if ((facts.types & kStringType) != 0) {
    const RegexId texts = Texts(facts), quote = arena.Byte('"');
    parts.push_back(texts == AnyKey() ? FreeString() : arena.Concat(quote, arena.Concat(texts, quote)));
  }
  const RegexId scalars = arena.Or(std::move(parts));
  return dfa_.IsEmpty(scalars, fuel_) ? kNothing : scalars;
}

}  // namespace hydrant::grammar
