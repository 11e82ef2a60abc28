#include "api/wire/request_id.h"

#include <algorithm>

namespace hydrant {

bool IsRequestId(std::string_view text, size_t bytes_max) {
  if (text.empty() || text.size() > bytes_max) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == ':' || c == '-';
  });
}

}  // namespace hydrant
