// Where the files of the repository are that a test reads. hydrant_test's READS_SOURCES says where they were when it was built.
#ifndef HYDRANT_TESTS_SUPPORT_SOURCE_DIR_H_
#define HYDRANT_TESTS_SUPPORT_SOURCE_DIR_H_

#include <cstdlib>
#include <string>

namespace hydrant {

// HYDRANT_SOURCES in the environment comes first: a program may have been carried to another machine.
inline std::string SourceDir() {
  const char* carried = std::getenv("HYDRANT_SOURCES");
  return carried != nullptr && *carried != '\0' ? carried : HYDRANT_SOURCE_DIR;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SUPPORT_SOURCE_DIR_H_
