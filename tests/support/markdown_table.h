// A table of a page, for tests that hold the page to a table of the code.
#ifndef HYDRANT_TESTS_SUPPORT_MARKDOWN_TABLE_H_
#define HYDRANT_TESTS_SUPPORT_MARKDOWN_TABLE_H_

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/source_dir.h"

namespace hydrant {

// The rows of the table whose heading begins with `heading`, as they are in `page` ("docs/api.md").
inline std::vector<std::string> RowsOfPage(const std::string& page, std::string_view heading) {
  std::ifstream file(SourceDir() + "/" + page);
  std::vector<std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(heading)) {
      inside = true;
    } else if (inside && !line.starts_with("|")) {
      break;
    } else if (inside && !line.starts_with("|---")) {
      rows.push_back(line);
    }
  }
  return rows;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SUPPORT_MARKDOWN_TABLE_H_
