#include "model/tokenizer.h"

#include "model/utf8.h"

namespace hydrant {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}

std::string Detokenizer::Push(int32_t id) {
  std::string text;
  if (skip_special_tokens_ && tokenizer_.IsSpecial(id)) return text;
  pending_.append(tokenizer_.TokenBytes(id));
  const size_t incomplete = AppendUtf8Lossy(pending_, text);
  pending_.erase(0, pending_.size() - incomplete);
  return text;
}

std::string Detokenizer::Finish() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace hydrant
