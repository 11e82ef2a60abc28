// ToolFormat says how a family of models writes tool calls: data, from which the grammar of a request's calls is made, and by which calls
// are read back.
//
// Thread: any (constants).
#ifndef HYDRANT_MODEL_GRAMMAR_NOTATION_TOOL_FORMAT_H_
#define HYDRANT_MODEL_GRAMMAR_NOTATION_TOOL_FORMAT_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace hydrant::grammar {

enum class ArgumentStyle : uint8_t {
  kJson,     // one JSON object
  kMarkup,   // a text per argument, between marks
  kAssigned  // key=value, as in a program
};

// Members named `…_pattern` are regular expressions (regex_parser.h), the others the bytes themselves. What is optional in a pattern may
// be there or not; the rest is what the model has to write.
struct ToolFormat {
  std::string_view name;
  // Calls begin with it; in free text they begin where it first stands. Empty: they are all of the answer or none of it.
  std::string_view trigger;
  std::string_view before_pattern;     // behind the trigger, or at the beginning of the answer
  std::string_view call_pattern;       // before a name
  std::string_view arguments_pattern;  // between name and arguments
  std::string_view end_pattern;        // behind the arguments
  std::string_view next_pattern;       // between two calls behind one trigger; "-": there is one call behind each
  std::string_view after_pattern;      // behind all calls of one trigger
  bool text_follows;                   // text and another trigger may follow
  ArgumentStyle style;
  // What stands around each argument, unless it is JSON: mark key mark value mark, and what is between two. A value whose end begins with a
  // new line has lines of its own.
  std::string_view key_begin, key_end_pattern, value_end, between_pattern;
  // Rows to read by have more: how a value ends that closes in its own line, up to where another key begins, or within what ends the call;
  // and what is left of that.
  std::array<std::string_view, 2> ends_at_key = {}, ends_at_end = {};
  std::string_view rest_of_end_pattern;
  // Texts that some vocabularies have as special tokens: there nothing else spells them. A marker's place here says which byte it is in a
  // grammar (marker_bytes.h).
  std::array<std::string_view, 5> markers = {};
  // A template that has all of these asks its model for the format; the first format in the list counts.
  std::array<std::string_view, 2> in_template;
};

std::span<const ToolFormat> ToolFormats();
// Null for other names.
const ToolFormat* FindToolFormat(std::string_view name);
// The rows by which calls of this format are read back: models space calls as they like, take one format's key for another's, and leave
// marks out. They have one style, and their triggers begin with the same byte. Empty for other names.
std::span<const ToolFormat> FindReadFormats(std::string_view name);
// The rows by which calls of this format are written as messages of their own (MessageMarks): a trigger begins a message's head. Empty for
// formats whose calls are none.
std::span<const ToolFormat> FindMessageFormats(std::string_view name);
// The format that a chat template asks its model for; null where it is none of these.
const ToolFormat* DetectToolFormat(std::string_view chat_template);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_NOTATION_TOOL_FORMAT_H_
