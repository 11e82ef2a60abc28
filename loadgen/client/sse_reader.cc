#include "loadgen/client/sse_reader.h"

namespace hydrant {

bool SseReader::Next(std::string_view* rest, std::string_view* data) {
  size_t begin = 0;
  size_t data_lines = 0;
  for (;;) {
    const size_t end = rest->find('\n', begin);
    if (end == std::string_view::npos) return false;
    std::string_view line = rest->substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    begin = end + 1;
    if (line.empty()) break;
    if (line.substr(0, 5) != "data:") continue;
    line.remove_prefix(5);
    if (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    if (++data_lines == 1) {
      *data = line;
      continue;
    }
    if (data_lines == 2) joined_.assign(*data);
    joined_.append("\n").append(line);
  }
  if (data_lines > 1) *data = joined_;
  has_data_ = data_lines > 0;
  rest->remove_prefix(begin);
  return true;
}

}  // namespace hydrant
