// What tests of shapes share: a vocabulary of bytes, and shapes of texts.
#ifndef HYDRANT_TESTS_SERVER_SHAPES_SHAPE_CHECKS_H_
#define HYDRANT_TESTS_SERVER_SHAPES_SHAPE_CHECKS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/shapes/compiled_shape.h"
#include "tests/support/byte_tokenizer.h"

namespace hydrant {

inline std::shared_ptr<const ShapeVocabulary> ByteVocabulary() {
  return std::make_shared<const ShapeVocabulary>(std::make_shared<ByteTokenizer>(), ByteTokenizer::kVocab,
                                                 std::vector<int32_t>{ByteTokenizer::kEos});
}

inline ConstraintSpec SchemaSpec(std::string text) {
  ConstraintSpec spec;
  spec.kind = ConstraintKind::kJsonSchema;
  spec.text = std::move(text);
  return spec;
}

inline ConstraintSpec RegexSpec(std::string text) {
  ConstraintSpec spec = SchemaSpec(std::move(text));
  spec.kind = ConstraintKind::kRegex;
  return spec;
}

inline std::shared_ptr<CompiledShape> MustCompileShape(const ConstraintSpec& spec) {
  auto made = CompiledShape::Compile(spec, ByteVocabulary());
  const auto* refusal = std::get_if<grammar::Refusal>(&made);
  EXPECT_EQ(refusal, nullptr) << refusal->text;
  return refusal == nullptr ? std::get<0>(made) : nullptr;
}

inline bool HasBit(const std::vector<uint32_t>& bits, int32_t token) {
  return (bits[static_cast<size_t>(token) / 32] >> (static_cast<uint32_t>(token) % 32) & 1) != 0;
}

// Those whose bits are set, in order.
inline std::vector<int32_t> TokensOf(const std::vector<uint32_t>& bits) {
  std::vector<int32_t> tokens;
  for (int32_t token = 0; token < ByteTokenizer::kVocab; ++token) {
    if (HasBit(bits, token)) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_SHAPES_SHAPE_CHECKS_H_
