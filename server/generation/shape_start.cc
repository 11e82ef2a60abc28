#include "server/generation/shape_start.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

constexpr std::string_view kSpace = " \n\r\t";

// The end of `content` that belongs to the answer: behind thinking, as the prompt has it, whose template may have trimmed it.
std::string AnswerOf(std::string content, const ReasoningFormat& reasoning, const std::string& prompt) {
  if (reasoning.known()) {
    const size_t closed = content.rfind(reasoning.close);
    if (closed != std::string::npos) {
      const size_t begin = content.find_first_not_of(kSpace, closed + reasoning.close.size());
      content.erase(0, std::min(begin, content.size()));
    }
  }
  if (!prompt.ends_with(content)) content.resize(content.find_last_not_of(kSpace) + 1);
  return content;
}

}  // namespace

ApiResult<AnswerStart> MakeShapeStart(ChatRequest& request, const RequestPrompt& prompt,
                                      const ServingContext& context) {
  const Conversation& conversation = request.conversation;
  const Constraint& constraint = *request.constraint;
  if (request.parses_tool_calls && constraint.spec.kind != ConstraintKind::kToolCalls) {
    return UnsupportedField(constraint.field, absl::StrCat("'", constraint.field, "' beside 'tools'"));
  }
  AnswerStart start;
  start.calls_only = constraint.calls_only;
  start.from_arguments = constraint.from_arguments;
  const ReasoningFormat& reasoning = context.chat.For(!conversation.tools.is_null()).reasoning;
  if (reasoning.known() && !constraint.in_reasoning) {
    if (!reasoning.lead.empty()) {
      if (constraint.calls_only) {
        request.constraint.reset();
        return start;
      }
      const bool calls = constraint.spec.kind == ConstraintKind::kToolCalls;
      return UnsupportedField(constraint.field,
                              absl::StrCat(calls ? "A call that is required, or of a function that is 'strict',"
                                                 : absl::StrCat("'", constraint.field, "'"),
                                           " with a model that announces its answers"));
    }
    start.thinking_closes = reasoning.close;
    start.thinks = OpensReasoning(reasoning, prompt.text, prompt.client_ranges, conversation.continue_final_message);
    // Where the model begins to think by itself it may do so, with one token. Who is not masked may also where its client asked for none.
    const bool may_think =
        constraint.calls_only || (!conversation.continue_final_message && conversation.enable_thinking.value_or(true));
    if (!start.thinks && may_think) {
      const std::vector<int32_t> open = context.tokenizer->Encode(reasoning.open, {.add_special_tokens = false});
      if (open.size() == 1) start.thinks_behind = open[0];
      // Where thinking begins is not known: a mark in it would be none of a call.
      if (open.size() != 1 && constraint.calls_only) {
        request.constraint.reset();
        return start;
      }
    }
  }
  if (conversation.continue_final_message && !start.thinks && !constraint.calls_only) {
    const nlohmann::ordered_json& last = conversation.messages.back();
    const auto content = last.find("content");
    if (content != last.end() && content->is_string()) {
      start.prefix = AnswerOf(static_cast<std::string>(*content), reasoning, prompt.text);
    }
  }
  return start;
}

}  // namespace hydrant
