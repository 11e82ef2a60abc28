#include "model/grammar/schema_keywords.h"

#include <array>

namespace hydrant::grammar {
namespace {

constexpr std::array kKeywords = {
    // What any value has.
    Keyword{"type", KeywordUse::kEnforced},
    Keyword{"enum", KeywordUse::kEnforced},
    Keyword{"const", KeywordUse::kEnforced},
    // How schemas are combined.
    Keyword{"$ref", KeywordUse::kEnforced},
    Keyword{"allOf", KeywordUse::kEnforced},
    Keyword{"anyOf", KeywordUse::kEnforced},
    Keyword{"oneOf", KeywordUse::kEnforced},
    Keyword{"not", KeywordUse::kEnforced},
    Keyword{"if", KeywordUse::kEnforced},
    Keyword{"then", KeywordUse::kEnforced},
    Keyword{"else", KeywordUse::kEnforced},
    // What $ref leads to.
    Keyword{"$defs", KeywordUse::kEnforced},
    Keyword{"definitions", KeywordUse::kEnforced},
    Keyword{"$anchor", KeywordUse::kEnforced},
    Keyword{"$id", KeywordUse::kEnforced},
    Keyword{"id", KeywordUse::kEnforced},
    // Numbers.
    Keyword{"minimum", KeywordUse::kEnforced},
    Keyword{"maximum", KeywordUse::kEnforced},
    Keyword{"exclusiveMinimum", KeywordUse::kEnforced},
    Keyword{"exclusiveMaximum", KeywordUse::kEnforced},
    Keyword{"multipleOf", KeywordUse::kEnforced},
    // Strings.
    Keyword{"minLength", KeywordUse::kEnforced},
    Keyword{"maxLength", KeywordUse::kEnforced},
    Keyword{"pattern", KeywordUse::kEnforced},
    Keyword{"format", KeywordUse::kEnforced},
    // Objects.
    Keyword{"properties", KeywordUse::kEnforced},
    Keyword{"required", KeywordUse::kEnforced},
    Keyword{"additionalProperties", KeywordUse::kEnforced},
    Keyword{"patternProperties", KeywordUse::kEnforced},
    Keyword{"propertyNames", KeywordUse::kEnforced},
    Keyword{"minProperties", KeywordUse::kEnforced},
    Keyword{"maxProperties", KeywordUse::kEnforced},
    Keyword{"dependentRequired", KeywordUse::kEnforced},
    Keyword{"dependentSchemas", KeywordUse::kEnforced},
    Keyword{"dependencies", KeywordUse::kEnforced},
    Keyword{"unevaluatedProperties", KeywordUse::kEnforced},
    // Arrays.
    Keyword{"items", KeywordUse::kEnforced},
    Keyword{"prefixItems", KeywordUse::kEnforced},
    Keyword{"additionalItems", KeywordUse::kEnforced},
    Keyword{"unevaluatedItems", KeywordUse::kEnforced},
    Keyword{"minItems", KeywordUse::kEnforced},
    Keyword{"maxItems", KeywordUse::kEnforced},
    // Enforced where it says nothing (`false`, or at most one item), else refused.
    Keyword{"uniqueItems", KeywordUse::kEnforced},

    Keyword{"title", KeywordUse::kAnnotation},
    Keyword{"description", KeywordUse::kAnnotation},
    Keyword{"default", KeywordUse::kAnnotation},
    Keyword{"examples", KeywordUse::kAnnotation},
    Keyword{"deprecated", KeywordUse::kAnnotation},
    Keyword{"readOnly", KeywordUse::kAnnotation},
    Keyword{"writeOnly", KeywordUse::kAnnotation},
    Keyword{"$comment", KeywordUse::kAnnotation},
    Keyword{"$schema", KeywordUse::kAnnotation},
    Keyword{"$vocabulary", KeywordUse::kAnnotation},
    Keyword{"contentEncoding", KeywordUse::kAnnotation},
    Keyword{"contentMediaType", KeywordUse::kAnnotation},
    Keyword{"contentSchema", KeywordUse::kAnnotation},

    Keyword{"contains", KeywordUse::kRefused},
    Keyword{"minContains", KeywordUse::kRefused},
    Keyword{"maxContains", KeywordUse::kRefused},
    Keyword{"$dynamicRef", KeywordUse::kRefused},
    Keyword{"$dynamicAnchor", KeywordUse::kRefused},
    Keyword{"$recursiveRef", KeywordUse::kRefused},
    Keyword{"$recursiveAnchor", KeywordUse::kRefused},
};

}  // namespace

std::span<const Keyword> SchemaKeywords() { return kKeywords; }

KeywordUse UseOf(std::string_view name) {
  for (const Keyword& keyword : kKeywords) {
    if (keyword.name == name) return keyword.use;
  }
  return KeywordUse::kAnnotation;
}

}  // namespace hydrant::grammar
