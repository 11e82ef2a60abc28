#include "model/files/file_error.h"

#include "absl/strings/escaping.h"
#include "model/text/str_cat.h"

namespace hydrant {

std::string Quoted(std::string_view text) {
  constexpr size_t kShownBytes = 80;
  return StrCat("'", absl::CHexEscape(AbslPart(text.substr(0, kShownBytes))), text.size() > kShownBytes ? "…'" : "'");
}

}  // namespace hydrant
