#include "model/tokenizer/tokenizer.h"

#include "absl/strings/str_cat.h"
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

int32_t Detokenizer::CharactersBefore(std::optional<int32_t> id) const {
  if (pending_.empty()) return 0;
  const int32_t replacements = rules_.replaces_each_byte ? static_cast<int32_t>(pending_.size()) : 1;
  if (!id.has_value()) return replacements;
  if (skip_special_tokens_ && tokenizer_.IsSpecial(*id)) return 0;
  const std::string joined = absl::StrCat(pending_, std::string(tokenizer_.TokenBytes(*id)));
  return NextUtf8Unit(joined).bytes > pending_.size() ? 0 : replacements;
}

std::string Detokenizer::Finish() {
  const int32_t replacements = CharactersBefore(std::nullopt);
  pending_.clear();
  std::string text;
  for (int32_t i = 0; i < replacements; ++i) text.append(kReplacementCharacter);
  return text;
}

}  // namespace hydrant
