#include "model/tokenizer/tokenizer.h"

#include "model/text/utf8.h"

namespace hydrant {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens, bool first)
    : tokenizer_(tokenizer), rules_(tokenizer.text_rules()), skip_special_tokens_(skip_special_tokens), first_(first) {
  if (!first) rules_.leading_dropped = 0;
}

std::string Detokenizer::Push(int32_t id) {
  std::string text;
  PushTo(id, text);
  return text;
}

void Detokenizer::PushTo(int32_t id, std::string& text) {
  if (skip_special_tokens_ && tokenizer_.IsSpecial(id)) return;
  std::string_view bytes = first_ ? tokenizer_.FirstTokenBytes(id) : tokenizer_.TokenBytes(id);
  first_ = false;
  while (rules_.leading_dropped > 0 && !bytes.empty()) {
    if (bytes[0] == rules_.leading && pending_.empty()) {
      bytes.remove_prefix(1);
      --rules_.leading_dropped;
    } else {
      rules_.leading_dropped = 0;
    }
  }
  pending_.append(bytes);
  const size_t incomplete = AppendUtf8Lossy(pending_, text, rules_.replaces_each_byte);
  pending_.erase(0, pending_.size() - incomplete);
}

std::string Detokenizer::Finish() {
  const size_t replacements = rules_.replaces_each_byte ? pending_.size() : pending_.empty() ? 0 : 1;
  pending_.clear();
  std::string text;
  for (size_t i = 0; i < replacements; ++i) text.append(kReplacementCharacter);
  return text;
}

}  // namespace hydrant
