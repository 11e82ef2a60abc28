#include "model/files/file_error.h"

#include "absl/strings/escaping.h"

namespace hydrant {

std::string Quoted(std::string_view text) {
  constexpr size_t kShownBytes = 80;
  return Cat("'", absl::CHexEscape(CatPart(text.substr(0, kShownBytes))), text.size() > kShownBytes ? "…'" : "'");
}

}  // namespace hydrant
