// ReasoningFormat is how a model marks what it thinks before it answers, as far as its chat template shows. It is found by
// rendering small conversations, so no model has to be known by name.
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_MODEL_CHAT_REASONING_FORMAT_H_
#define HYDRANT_MODEL_CHAT_REASONING_FORMAT_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/chat/chat_template.h"

namespace hydrant {

// Where an answer is several messages, each of which says in its head on which channel it is: gpt-oss's harmony.
struct ChannelFormat {
  std::string start;    // "<|start|>assistant": begins a head; that of the first message the prompt has begun
  std::string channel;  // "<|channel|>": the channel's name is behind it; empty: answers are no such messages
  std::string message;  // "<|message|>": ends a head
  std::string end;      // "<|end|>": ends a message
  std::string thought;  // "analysis": the channel of reasoning
  std::string answer;   // "final": that of answers

  bool known() const { return !channel.empty(); }
};

struct ReasoningFormat {
  std::string open;   // "<think>"; empty: the template shows no reasoning
  std::string close;  // "</think>"
  std::string lead;   // what stands between `close` and the answer, white space aside; of most models nothing
  // The member of an assistant's message in which the template reads past reasoning; "content": in a part of it whose type is
  // thinking. Empty: nowhere.
  std::string member;
  ChannelFormat channels =
      {};  // of which `open`, `close` and `lead` are what stands around one message of reasoning and the answer
  bool open_in_prompt = false;  // the prompt of a conversation that says nothing about reasoning ends within it

  bool known() const { return !open.empty(); }
};

// The messages with each assistant's `reasoning_content` where the template reads it; nothing where it is there already, or the
// template reads none. `continues`: the last message is left as it is.
std::optional<nlohmann::ordered_json> WithReasoningPlaced(const ReasoningFormat& format,
                                                          const nlohmann::ordered_json& messages, bool continues);

// `source`: of `chat`.
ReasoningFormat DetectReasoning(const ChatTemplate& chat, std::string_view source);

// Whether the prompt, which does not go on with the client's own text, ends behind the start of a message.
bool EndsWithStart(const ChannelFormat& channels, std::string_view prompt);

// Whether what follows the prompt, of which a client wrote the ranges `client`, is reasoning already: the template opened it,
// or, where the prompt `continues` the last message, that begins with it and has not closed it.
bool OpensReasoning(const ReasoningFormat& format, std::string_view prompt, std::span<const ByteRange> client,
                    bool continues);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHAT_REASONING_FORMAT_H_
