// BuildStructuralTag makes a script of a structural tag: free text in which, behind certain triggers, something has to follow.
//
// Both shapes that clients send are read. The older one, {"structures": [{"begin", "schema", "end"}], "triggers": […]}: text, and behind a
// trigger the rest of a structure that begins with it. The newer one, {"format": …}, is built of formats: const_string, json_schema, regex,
// grammar, any_text, sequence, or, tag, triggered_tags, tags_with_separator. Other types and members are refused by name.
//
// Thread: the one that compiles.
#ifndef HYDRANT_MODEL_GRAMMAR_STRUCTURAL_TAG_H_
#define HYDRANT_MODEL_GRAMMAR_STRUCTURAL_TAG_H_

#include <optional>
#include <string_view>

#include "model/grammar/grammar_parts.h"

namespace hydrant::grammar {

inline constexpr size_t kTagsMax = 1024;  // structures, or members of one format

// Sets the script's root, or says why not.
std::optional<Refusal> BuildStructuralTag(std::string_view text, GrammarParts& parts);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_STRUCTURAL_TAG_H_
