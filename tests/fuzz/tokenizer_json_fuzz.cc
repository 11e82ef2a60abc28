// A tokenizer.json is refused in one line or makes a tokenizer whose ids are its own.
#include <string>
#include <vector>

#include "model/tokenizer/bpe_tokenizer.h"
#include "model/vocabulary/tokenizer_json.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {

void Fuzz(std::string_view input) {
  const auto one_line = [](const absl::Status& status) {
    Require(status.message().find('\n') == status.message().npos, "a refusal is one line");
  };
  const auto document = JsonDocument::Parse(input, kTokenizerJsonLimits, "t.json");
  if (!document.ok()) return one_line(document.status());
  const auto spec = ReadTokenizerJson(*document, "t.json");
  if (!spec.ok()) return one_line(spec.status());
  const auto made = BpeTokenizer::Create(*spec, 0);
  if (!made.ok()) return one_line(made.status());
  const Tokenizer& tokenizer = **made;
  for (const std::string_view text : {"", "a", " It's  2024 <s>\n\xff\xc3 e\u0301 \u4e2d\U0001f600▁x"}) {
    for (const bool parse : {false, true}) {
      const std::vector<int32_t> ids = tokenizer.Encode(text, {.parse_special_tokens = parse});
      Detokenizer stream(tokenizer, parse);
      std::string streamed;
      for (const int32_t id : ids) {
        Require(id >= 0 && id < tokenizer.vocab_size(), "ids are in the vocabulary");
        stream.PushTo(id, streamed);
      }
      Require(streamed + stream.Finish() == tokenizer.Decode(ids, parse), "a stream is the whole");
    }
  }
}

}  // namespace hydrant
