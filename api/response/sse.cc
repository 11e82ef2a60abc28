#include "api/response/sse.h"

#include <cassert>

namespace hydrant {

void AppendSseEvent(std::string* out, std::string_view line) {
  assert(line.find_first_of("\r\n") == std::string_view::npos);
  out->append(kSseData);
  out->append(line);
  out->append("\n\n");
}

void AppendSseError(std::string* out, const ApiError& error) { AppendSseEvent(out, ErrorJson(error)); }

}  // namespace hydrant
