// What every keyword of JSON Schema, drafts 4 to 2020-12, is here: enforced, an annotation, or refused by name. There is nothing
// else; names that no draft has are annotations, as the standard says.
//
// Thread: any.
#ifndef HYDRANT_MODEL_GRAMMAR_SCHEMA_KEYWORDS_H_
#define HYDRANT_MODEL_GRAMMAR_SCHEMA_KEYWORDS_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace hydrant::grammar {

enum class KeywordUse : uint8_t { kEnforced, kAnnotation, kRefused };

struct Keyword {
  std::string_view name;
  KeywordUse use;
};

std::span<const Keyword> SchemaKeywords();
KeywordUse UseOf(std::string_view name);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_SCHEMA_KEYWORDS_H_
