// A .safetensors file is refused in one line, or all its tensors lie inside it and are as long as their shape says.
#include "model/files/safetensors_file.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {

void Fuzz(std::string_view input) {
  const auto tensors = ParseSafetensors(input, "m.safetensors");
  if (!tensors.ok()) {
    Require(tensors.status().message().find('\n') == absl::string_view::npos, "a refusal is one line");
    return;
  }
  for (const RawTensor& tensor : *tensors) {
    if (tensor.data.empty()) continue;
    Require(
        tensor.data.data() >= input.data() && tensor.data.data() + tensor.data.size() <= input.data() + input.size(),
        "a tensor lies inside the file");
  }
}

}  // namespace hydrant
