#include "model/grammar/notation/tool_format.h"

#include <algorithm>
#include <iterator>

namespace hydrant::grammar {
namespace {

// Sources: the chat templates of the models that are named, as they render calls of earlier turns.
constexpr ToolFormat kFormats[] = {
    // gpt-oss's harmony: a message for a function, whose head is brought into one order when the answer's messages are told apart.
    {.name = "harmony",
     .trigger = "<|channel|>commentary to=functions.",
     .arguments_pattern = R"( ?(<\|constrain\|>)?(json)?<\|message\|>\s*)",
     .next_pattern = "-",
     .text_follows = true,
     .markers = {"<|channel|>", "<|constrain|>", "<|message|>"},
     .in_template = {"<|channel|>commentary", "functions."}},
    // Ministral 3, Mistral Small 3.2, Devstral: [TOOL_CALLS]name[ARGS]{…}
    {.name = "mistral_args",
     .trigger = "[TOOL_CALLS]",
     .arguments_pattern = R"(\[ARGS\] ?)",
     .next_pattern = "-",
     .text_follows = true,
     .markers = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
     .in_template = {"[TOOL_CALLS]", "[ARGS]"}},
    // Mistral 7B v0.3, Nemo: [TOOL_CALLS] [{"name": …, "arguments": {…}}]
    {.name = "mistral",
     .trigger = "[TOOL_CALLS]",
     .before_pattern = R"( ?\[)",
     .call_pattern = R"(\{"name": ?")",
     .arguments_pattern = R"(", ?"arguments": ?)",
     .end_pattern = R"(\})",
     .next_pattern = ", ?",
     .after_pattern = R"(\])",
     .markers = {"[TOOL_CALLS]"},
     .in_template = {"[TOOL_CALLS]", ""}},
    // Qwen3-Coder, Qwen3.5: <tool_call> <function=name> <parameter=key> value </parameter> </function> </tool_call>
    {.name = "qwen3_coder",
     .trigger = "<tool_call>",
     .before_pattern = "\n?",
     .call_pattern = "<function=",
     .arguments_pattern = ">\n",
     .end_pattern = "</function>\n?</tool_call>",
     .next_pattern = "-",
     .text_follows = true,
     .style = ArgumentStyle::kMarkup,
     .key_begin = "<parameter=",
     .key_end_pattern = ">\n",
     .value_end = "\n</parameter>\n",
     .markers = {"<tool_call>", "</tool_call>"},
     .in_template = {"<function=", "<parameter="}},
    // GLM 4.5 and 4.6, and without the new lines 4.7: <tool_call>name <arg_key>key</arg_key> <arg_value>value</arg_value> </tool_call>
    {.name = "glm45",
     .trigger = "<tool_call>",
     .arguments_pattern = "\n?",
     .end_pattern = "\n?</tool_call>",
     .next_pattern = "-",
     .text_follows = true,
     .style = ArgumentStyle::kMarkup,
     .key_begin = "<arg_key>",
     .key_end_pattern = "</arg_key>\n?<arg_value>",
     .value_end = "</arg_value>",
     .between_pattern = "\n?",
     .markers = {"<tool_call>", "</tool_call>"},
     .in_template = {"<arg_key>", "<arg_value>"}},
    // Functionary v3.1, Llama 3.1 as it is asked for tools of one's own: <function=name>{…}</function>
    {.name = "functionary_v31",
     .trigger = "<function=",
     .arguments_pattern = ">",
     .end_pattern = "</function>",
     .next_pattern = "-",
     .text_follows = true,
     .markers = {"<function="},
     .in_template = {"<function=", "</function>"}},
    // Hunyuan A13B, Apriel: <tool_calls>[{"name": …, "arguments": {…}}]</tool_calls>
    {.name = "hunyuan_a13b",
     .trigger = "<tool_calls>",
     .before_pattern = R"(\n?\[)",
     .call_pattern = R"(\{"name": ?")",
     .arguments_pattern = R"(", ?"arguments": ?)",
     .end_pattern = R"(\})",
     .next_pattern = ", ?",
     .after_pattern = R"(\]\n?</tool_calls>)",
     .markers = {"<tool_calls>", "</tool_calls>"},
     .in_template = {"<tool_calls>[", ""}},
    // Hermes, Qwen 2.5 and 3: <tool_call>{"name": …, "arguments": {…}}</tool_call>
    {.name = "hermes",
     .trigger = "<tool_call>",
     .before_pattern = "\n?",
     .call_pattern = R"(\{"name": ?")",
     .arguments_pattern = R"(", ?"arguments": ?)",
     .end_pattern = "\\}\n?</tool_call>",
     .next_pattern = "-",
     .text_follows = true,
     .markers = {"<tool_call>", "</tool_call>"},
     .in_template = {"<tool_call>", ""}},
    // DeepSeek R1 and V3: the arguments in a fence. V3.1: bare.
    {.name = "deepseek_v3",
     .trigger = "<｜tool▁calls▁begin｜>",
     .call_pattern = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .arguments_pattern = "\n```json\n",
     .end_pattern = "\n```<｜tool▁call▁end｜>",
     .next_pattern = "\n?",
     .after_pattern = "<｜tool▁calls▁end｜>",
     .markers = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
                 "<｜tool▁calls▁end｜>"},
     .in_template = {"<｜tool▁calls▁begin｜>", "```json"}},
    {.name = "deepseek_v31",
     .trigger = "<｜tool▁calls▁begin｜>",
     .call_pattern = "<｜tool▁call▁begin｜>",
     .arguments_pattern = "<｜tool▁sep｜>",
     .end_pattern = "<｜tool▁call▁end｜>",
     .after_pattern = "<｜tool▁calls▁end｜>",
     .markers = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
                 "<｜tool▁calls▁end｜>"},
     .in_template = {"<｜tool▁calls▁begin｜>", ""}},
    // Llama 4, Llama 3.2's small models as they are often asked: [name(key=value, …), …]
    {.name = "pythonic",
     .before_pattern = R"((<\|python_start\|>)?\[)",
     .arguments_pattern = R"(\()",
     .end_pattern = R"(\))",
     .next_pattern = ", ?",
     .after_pattern = R"(\](<\|python_end\|>)?)",
     .style = ArgumentStyle::kAssigned,
     .key_end_pattern = "=",
     .between_pattern = ", ",
     .markers = {"<|python_start|>", "<|python_end|>"},
     .in_template = {"params_name1=params_value1", ""}},
    // Llama 3.1 and 3.2: {"name": …, "parameters": {…}}
    {.name = "llama3_json",
     .before_pattern = R"((<\|python_tag\|>)?)",
     .call_pattern = R"(\{"name": ?")",
     .arguments_pattern = R"(", ?"parameters": ?)",
     .end_pattern = R"(\})",
     .next_pattern = "; ?",
     .markers = {"<|python_tag|>"},
     .in_template = {"<|python_tag|>", ""}},
    // Llama 3.2's small models are asked for the JSON without the tag.
    {.name = "llama3_json",
     .before_pattern = R"((<\|python_tag\|>)?)",
     .call_pattern = R"(\{"name": ?")",
     .arguments_pattern = R"(", ?"parameters": ?)",
     .end_pattern = R"(\})",
     .next_pattern = "; ?",
     .markers = {"<|python_tag|>"},
     .in_template = {"\"parameters\": ", "<|start_header_id|>"}},
};

// What closes a call that is JSON: perhaps with scalar members behind the arguments, such as the "id" that Mistral's templates write.
constexpr std::string_view kObjectEnd = R"x((\s*,\s*"[^"\\]*"\s*:\s*("([^"\\]|\\[^\n])*"|[A-Za-z0-9+.\-]+))*\s*\})x";
constexpr std::string_view kTaggedObjectEnd =
    R"x((\s*,\s*"[^"\\]*"\s*:\s*("([^"\\]|\\[^\n])*"|[A-Za-z0-9+.\-]+))*\s*\}\s*</tool_call>)x";

constexpr std::string_view kLooseName = R"x(\{\s*"name"\s*:\s*")x";
constexpr std::string_view kLooseArguments = R"x("\s*,\s*"(arguments|parameters)"\s*:\s*)x";

// Blanks where the template has none, and lines that it has and a model leaves out, perhaps the first mark with them: what comes up to the
// name is the row's.
constexpr ToolFormat ReadQwen3Coder(std::string_view trigger, std::string_view before, std::string_view call) {
  return {.name = "qwen3_coder",
          .trigger = trigger,
          .before_pattern = before,
          .call_pattern = call,
          .arguments_pattern = R"(>\s*)",
          .end_pattern = R"(\s*</function>\s*</tool_call>)",
          .next_pattern = "-",
          .text_follows = true,
          .style = ArgumentStyle::kMarkup,
          .key_begin = "<parameter=",
          .key_end_pattern = ">",
          .value_end = "\n</parameter>",
          .between_pattern = R"(\s*)",
          .ends_at_key = {"</parameter>\n<parameter=", "</parameter><parameter="},
          .ends_at_end = {"</parameter>\n</function", "</parameter></function"},
          .rest_of_end_pattern = R"(>\s*</tool_call>)",
          .in_template = {}};
}

// Those of which models write more than they are asked for. What keeps to a row above keeps to the one of its name here.
constexpr ToolFormat kReadFormats[] = {
    // Both spellings: a list, or name and arguments, where a model may leave the mark between them out, or put an id before it.
    {.name = "mistral",
     .trigger = "[TOOL_CALLS]",
     .before_pattern = R"(\s*\[\s*)",
     .call_pattern = kLooseName,
     .arguments_pattern = kLooseArguments,
     .end_pattern = kObjectEnd,
     .next_pattern = R"(\s*,\s*)",
     .after_pattern = R"(\s*\])",
     .text_follows = true,
     .in_template = {}},
    {.name = "mistral",
     .trigger = "[TOOL_CALLS]",
     .before_pattern = R"(\s*)",
     .arguments_pattern = R"((\[CALL_ID\][A-Za-z0-9]*)?(\[ARGS\])?\s*)",
     .next_pattern = "-",
     .text_follows = true,
     .in_template = {}},
    {.name = "hermes",
     .trigger = "<tool_call>",
     .before_pattern = R"(\s*)",
     .call_pattern = kLooseName,
     .arguments_pattern = kLooseArguments,
     .end_pattern = kTaggedObjectEnd,
     .next_pattern = "-",
     .text_follows = true,
     .in_template = {}},
    ReadQwen3Coder("<tool_call>", R"(\s*)", "<function="),
    ReadQwen3Coder("<function=", "", ""),
    {.name = "glm45",
     .trigger = "<tool_call>",
     .before_pattern = R"(\s*)",
     .arguments_pattern = R"(\s*)",
     .end_pattern = R"(\s*</tool_call>)",
     .next_pattern = "-",
     .text_follows = true,
     .style = ArgumentStyle::kMarkup,
     .key_begin = "<arg_key>",
     .key_end_pattern = R"(</arg_key>\s*<arg_value>)",
     .value_end = "</arg_value>",
     .between_pattern = R"(\s*)",
     .in_template = {}},
    {.name = "functionary_v31",
     .trigger = "<function=",
     .arguments_pattern = R"(>\s*)",
     .end_pattern = R"(\s*</function>)",
     .next_pattern = "-",
     .text_follows = true,
     .in_template = {}},
    {.name = "hunyuan_a13b",
     .trigger = "<tool_calls>",
     .before_pattern = R"(\s*\[\s*)",
     .call_pattern = kLooseName,
     .arguments_pattern = kLooseArguments,
     .end_pattern = kObjectEnd,
     .next_pattern = R"(\s*,\s*)",
     .after_pattern = R"(\s*\]\s*</tool_calls>)",
     .text_follows = true,
     .in_template = {}},
    {.name = "llama3_json",
     .before_pattern = R"(\s*(<\|python_tag\|>\s*)?)",
     .call_pattern = kLooseName,
     .arguments_pattern = kLooseArguments,
     .end_pattern = kObjectEnd,
     .next_pattern = R"(\s*;?\s*)",
     .after_pattern = R"((\s*;\s*)?)",
     .in_template = {}},
};

// Models name the function behind the channel, or before it, as their template does.
constexpr ToolFormat kMessageFormats[] = {
    {.name = "harmony",
     .trigger = "<|channel|>commentary to=functions.",
     .arguments_pattern = R"( (<\|constrain\|>)?json<\|message\|>)",
     .next_pattern = "-",
     .in_template = {}},
    {.name = "harmony",
     .trigger = " to=functions.",
     .arguments_pattern = R"(<\|channel\|>commentary (<\|constrain\|>)?json<\|message\|>)",
     .next_pattern = "-",
     .in_template = {}},
};

std::span<const ToolFormat> RowsOf(std::span<const ToolFormat> formats, std::string_view name) {
  const auto is_it = [&](const ToolFormat& format) { return format.name == name; };
  const auto begin = std::ranges::find_if(formats, is_it);
  return {begin, std::find_if_not(begin, formats.end(), is_it)};
}

}  // namespace

std::span<const ToolFormat> ToolFormats() { return kFormats; }

const ToolFormat* FindToolFormat(std::string_view name) {
  for (const ToolFormat& format : kFormats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

std::span<const ToolFormat> FindReadFormats(std::string_view name) {
  if (name == "mistral_args") name = "mistral";
  const std::span<const ToolFormat> rows = RowsOf(kReadFormats, name);
  if (!rows.empty()) return rows;
  const ToolFormat* own = FindToolFormat(name);
  return own == nullptr ? std::span<const ToolFormat>() : std::span(own, 1);
}

std::span<const ToolFormat> FindMessageFormats(std::string_view name) { return RowsOf(kMessageFormats, name); }

const ToolFormat* DetectToolFormat(std::string_view chat_template) {
  const auto says = [&](std::string_view text) { return chat_template.find(text) != chat_template.npos; };
  for (const ToolFormat& format : kFormats) {
    if (says(format.in_template[0]) && says(format.in_template[1])) return &format;
  }
  return nullptr;
}

}  // namespace hydrant::grammar
