#include "model/files/file_error.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(FileError, NamesFileAndField) {
  EXPECT_EQ(FileError("config.json", "'layers'", 0, " is out of range").message(),
            "config.json: 'layers': 0 is out of range");
  EXPECT_EQ(FileError("x.gguf", "", "is not a file").message(), "x.gguf: is not a file");
}

TEST(FileError, QuotedTextStaysOnOneShortLine) {
  EXPECT_EQ(Quoted("a\nb\x1b[31m\xff"), "'a\\nb\\x1b[31m\\xff'");
  EXPECT_LE(Quoted(std::string(1'000'000, 'x')).size(), 90u);
}

}  // namespace
}  // namespace hydrant
