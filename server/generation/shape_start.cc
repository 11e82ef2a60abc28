#include "server/generation/shape_start.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

constexpr std::string_view kSpace = " \n\r\t";

// The end of `content` that belongs to the answer: behind thinking, as the prompt has it, whose template may have trimmed it.
std::string AnswerOf(std::string content, const ReasoningFormat& reasoning, const std::string& prompt) {
  // What ends a message of thought on a channel is text within an answer.
  if (reasoning.known() && !reasoning.channels.known()) {
    const size_t closed = content.rfind(reasoning.close);
    if (closed != std::string::npos) {
      const size_t begin = content.find_first_not_of(kSpace, closed + reasoning.close.size());
      content.erase(0, std::min(begin, content.size()));
    }
  }
  if (!prompt.ends_with(content)) content.resize(content.find_last_not_of(kSpace) + 1);
  return content;
}

// The messages of which the answer to the prompt has to be made; nullopt: the vocabulary cannot write them.
std::optional<grammar::MessageMarks> MessagesOf(const ChannelFormat& channels, const RequestPrompt& prompt,
                                                const Conversation& conversation, bool opened,
                                                const ShapeVocabulary& vocabulary) {
  using Begin = grammar::MessageMarks::Begin;
  grammar::MessageMarks marks;
  for (const auto& [text, mark] :
       {std::pair(&channels.start, &marks.start), std::pair(&channels.channel, &marks.channel),
        std::pair(&channels.message, &marks.message), std::pair(&channels.end, &marks.end)}) {
    std::optional<std::string> bytes = vocabulary.AnswerBytes(*text);
    if (!bytes.has_value()) return std::nullopt;
    *mark = *std::move(bytes);
  }
  marks.thought = channels.thought;
  marks.answer = channels.answer;
  marks.begin = opened                                 ? Begin::kThought
                : conversation.continue_final_message  ? Begin::kText
                : EndsWithStart(channels, prompt.text) ? Begin::kHead
                                                       : Begin::kStart;
  return marks;
}

// What a form cannot do with a model whose template says more before an answer than can be held to it.
ApiError AnnouncedError(const Constraint& constraint) {
  const bool calls = constraint.spec.kind == ConstraintKind::kToolCalls;
  return UnsupportedField(constraint.field,
                          absl::StrCat(calls ? "A call that is required, or of a function that is 'strict',"
                                             : absl::StrCat("'", constraint.field, "'"),
                                       " with a model that announces its answers"));
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
  const bool opened = OpensReasoning(reasoning, prompt.text, prompt.client_ranges, conversation.continue_final_message);
  if (reasoning.channels.known() && !constraint.calls_only) {
    start.messages = MessagesOf(reasoning.channels, prompt, conversation, opened, context.shapes->vocabulary());
    if (!start.messages.has_value()) return AnnouncedError(constraint);
    if (constraint.in_reasoning || !conversation.enable_thinking.value_or(true)) start.messages->thought.clear();
  } else if (reasoning.known() && !constraint.in_reasoning) {
    if (!reasoning.lead.empty()) {
      if (!constraint.calls_only) return AnnouncedError(constraint);
      request.constraint.reset();
      return start;
    }
    start.thinking_closes = reasoning.close;
    start.thinks = opened;
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
  const bool thinks = start.thinks || (opened && reasoning.channels.known());
  if (conversation.continue_final_message && !thinks && !constraint.calls_only) {
    const nlohmann::ordered_json& last = conversation.messages.back();
    const auto content = last.find("content");
    if (content != last.end() && content->is_string()) {
      start.prefix = AnswerOf(static_cast<std::string>(*content), reasoning, prompt.text);
    }
  }
  return start;
}

}  // namespace hydrant
