#include "model/tokenizer/byte_alphabet.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/model/checkpoint/gguf_builder.h"

namespace hydrant {
namespace {

TEST(ByteAlphabet, SpellsEveryByte) {
  const auto alphabet = ByteAlphabet();
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string spelled = "x";
    EXPECT_TRUE(AppendSpelledBytes(alphabet[byte], spelled));
    EXPECT_EQ(spelled, std::string("x") + static_cast<char>(byte));
  }
}

TEST(ByteAlphabet, LeavesWhatItDoesNotSpell) {
  for (const std::string piece : {"Ġ中", "a b", "\xff", "\xc4"}) {
    std::string out = "x";
    EXPECT_FALSE(AppendSpelledBytes(piece, out)) << piece;
    EXPECT_EQ(out, "x" + piece);
  }
}

}  // namespace
}  // namespace hydrant
