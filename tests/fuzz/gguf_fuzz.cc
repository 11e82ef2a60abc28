// A .gguf file is refused in one line, or all its tensors lie inside it and their rows can be expanded; its tokenizer too is refused or can be used.
#include <string>
#include <vector>

#include "model/files/dequantize.h"
#include "model/files/gguf_file.h"
#include "model/tokenizer/bpe_tokenizer.h"
#include "model/vocabulary/gguf_tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {

void Fuzz(std::string_view input) {
  const auto file = GgufFile::Parse(input, "m.gguf");
  if (!file.ok()) {
    Require(file.status().message().find('\n') == absl::string_view::npos, "a refusal is one line");
    return;
  }
  for (const RawTensor& tensor : file->tensors()) {
    if (tensor.data.empty()) continue;
    Require(
        tensor.data.data() >= input.data() && tensor.data.data() + tensor.data.size() <= input.data() + input.size(),
        "a tensor lies inside the file");
    std::vector<float> row(static_cast<size_t>(tensor.shape.back()));
    DequantizeRow(tensor.format, tensor.data.data(), tensor.shape.back(), row.data());
  }
  std::vector<std::string> warnings;
  const auto spec = ReadGgufTokenizer(*file, warnings);
  if (!spec.ok()) return;
  const auto tokenizer = BpeTokenizer::Create(*spec, 0);
  if (!tokenizer.ok()) return;
  for (const int32_t id : (*tokenizer)->Encode("a ab\n\xff<s>", {}))
    Require(id >= 0 && id < (*tokenizer)->vocab_size(), "ids are in the vocabulary");
}

}  // namespace hydrant
