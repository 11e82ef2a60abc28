// BuildToolCalls makes a script of the tool calls that a request allows, in the format of its model: text and calls, where behind a
// trigger only the name of a tool may come, and behind that only its arguments.
//
// What is asked for is JSON, so that it can be compared and kept like a schema:
//   {"format": a ToolFormat's name, "choice": "auto" | "required", "parallel": bool,
//    "tools": [{"name": …, "parameters": a schema; without it any object}],
//    "answer": a schema; with it there is a value of that or there are calls, and no other text}
// With "markers": [texts of the format], those are special tokens (marker_bytes.h), and text that spells one is none.
// With "loose": true calls are written as FindReadFormats says, that is as a model may write them of itself, but for formats with marks
// around each argument.
// Where `messages` are given, each call of a format that has such is one (FindMessageFormats), beside messages of text; all that other formats
// write is a message.
// Without "tools" any name is one, and calls are as FindReadFormats says; without "format" or with another member it is refused.
//
// Thread: the one that compiles.
#ifndef HYDRANT_MODEL_GRAMMAR_TOOL_CALLS_H_
#define HYDRANT_MODEL_GRAMMAR_TOOL_CALLS_H_

#include <optional>
#include <string_view>

#include "model/grammar/grammar_parts.h"
#include "model/grammar/notation/message_marks.h"

namespace hydrant::grammar {

inline constexpr size_t kToolsMax = 128;
inline constexpr size_t kToolsBytesMax = 1 << 20;

// Sets the script's root, or says why not.
std::optional<Refusal> BuildToolCalls(std::string_view text, const std::optional<MessageMarks>& messages,
                                      GrammarParts& parts);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_TOOL_CALLS_H_
