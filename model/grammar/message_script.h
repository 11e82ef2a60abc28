// MessageScript makes the script of an answer that is messages: what the model thinks, as often as it likes, before each of those that are
// asked for.
//
// Thread: the one that compiles.
#ifndef HYDRANT_MODEL_GRAMMAR_MESSAGE_SCRIPT_H_
#define HYDRANT_MODEL_GRAMMAR_MESSAGE_SCRIPT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/grammar/grammar_parts.h"
#include "model/grammar/notation/message_marks.h"

namespace hydrant::grammar {

class MessageScript {
 public:
  // Both outlive it. Free text has none of `excluded`.
  MessageScript(const MessageMarks& marks, GrammarParts& parts, std::vector<std::string> excluded = {})
      : marks_(marks), parts_(parts), excluded_(std::move(excluded)) {}

  // A message on this channel, from its head on.
  NodeId On(std::string_view channel, NodeId body);
  // Any text of a message, with which the answer may end. `head`: what may come behind its end and another start; kNoNode: nothing.
  NodeId FreeText(NodeId head);
  // The end of a message, and the start before `head`.
  NodeId Next(NodeId head) { return Literal(marks_.end + marks_.start, head); }
  // Says what `head`, which is reserved, reads: one of `ways`, or reasoning and behind it the same again.
  void FillHead(NodeId head, std::vector<NodeId> ways);
  // Where the answer begins. `text`: what is left of a message that is no reasoning.
  NodeId Root(NodeId head, NodeId text);

 private:
  NodeId Literal(std::string_view text, NodeId next);
  NodeId Thought(NodeId head);
  NodeId Free(NodeId behind_end, NodeId next);

  const MessageMarks& marks_;
  GrammarParts& parts_;
  const std::vector<std::string> excluded_;
};

// The answer is `form`, as the message on the channel of answers, or as what is left of one. Returns its root.
NodeId FormInMessages(const MessageMarks& marks, NodeId form, GrammarParts& parts);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_MESSAGE_SCRIPT_H_
