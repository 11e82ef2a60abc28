#include "model/grammar/message_script.h"

#include <cstdint>
#include <string>
#include <utility>

#include "model/grammar/regex/marker_bytes.h"

namespace hydrant::grammar {

NodeId MessageScript::Literal(std::string_view text, NodeId next) {
  parts_.fuel.Spend(static_cast<int64_t>(text.size()));
  return parts_.script.Text(parts_.dfa.arena().Literal(text), next, Region::kMarkup);
}

NodeId MessageScript::On(std::string_view channel, NodeId body) {
  return Literal(marks_.channel + std::string(channel) + marks_.message, body);
}

NodeId MessageScript::Free(NodeId behind_end, NodeId next) {
  // A token that begins a message is none of a text's, whatever follows it.
  const bool is_token = IsMarkerByte(static_cast<uint8_t>(marks_.start.front()));
  std::vector<std::string> triggers = {marks_.end, is_token ? marks_.start.substr(0, 1) : marks_.start};
  triggers.insert(triggers.end(), excluded_.begin(), excluded_.end());
  std::vector<NodeId> ways(triggers.size(), kNoNode);
  ways.front() = behind_end;
  return parts_.script.Free(triggers, std::move(ways), next);
}

NodeId MessageScript::FreeText(NodeId head) {
  return Free(head == kNoNode ? kNoNode : Literal(marks_.start, head), kReturnNode);
}

NodeId MessageScript::Thought(NodeId head) { return Free(Literal(marks_.start, head), kNoNode); }

void MessageScript::FillHead(NodeId head, std::vector<NodeId> ways) {
  if (!marks_.thought.empty()) ways.push_back(On(marks_.thought, Thought(head)));
  parts_.script.Fill(head, std::move(ways));
}

NodeId MessageScript::Root(NodeId head, NodeId text) {
  switch (marks_.begin) {
    case MessageMarks::Begin::kStart:
      return Literal(marks_.start, head);
    case MessageMarks::Begin::kHead:
      return head;
    case MessageMarks::Begin::kThought:
      return Thought(head);
    case MessageMarks::Begin::kText:
      return text;
  }
  return text;
}

NodeId FormInMessages(const MessageMarks& marks, NodeId form, GrammarParts& parts) {
  MessageScript messages(marks, parts);
  const NodeId head = parts.script.Reserve();
  messages.FillHead(head, {messages.On(marks.answer, form)});
  return messages.Root(head, form);
}

}  // namespace hydrant::grammar
