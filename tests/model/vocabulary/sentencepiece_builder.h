// SentencePieceBuilder writes tokenizer.model files, sound or broken. TinySentencePiece() is a sound one of a few pieces.
#ifndef HYDRANT_TESTS_MODEL_VOCABULARY_SENTENCEPIECE_BUILDER_H_
#define HYDRANT_TESTS_MODEL_VOCABULARY_SENTENCEPIECE_BUILDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/vocabulary/sentencepiece.h"
#include "tests/model/checkpoint/gguf_builder.h"

namespace hydrant {

struct SentencePieceBuilder {
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::kNormal;
  };
  std::vector<Piece> pieces;
  int model_type = 2;
  std::string charsmap = {};
  bool prefix_space = true, removes_extra_spaces = false, escapes_spaces = true, suffix_spaces = false;

  static std::string Varint(uint64_t number) {
    std::string out;
    for (; number > 127; number >>= 7) out += static_cast<char>((number & 127) | 128);
    return out + static_cast<char>(number);
  }
  static std::string Bytes(uint32_t field, std::string_view value) {
    return Varint(field << 3 | 2) + Varint(value.size()) + std::string(value);
  }
  static std::string Number(uint32_t field, uint64_t value) { return Varint(field << 3) + Varint(value); }

  std::string Build() const {
    std::string out;
    for (const Piece& piece : pieces) {
      out += Bytes(1, Bytes(1, piece.text) + "\x15" + Raw(piece.score) + Number(3, static_cast<uint64_t>(piece.type)));
    }
    out += Bytes(
        2, Number(3, static_cast<uint64_t>(model_type)) + Number(24, suffix_spaces) + Number(41, 1) + Number(42, 2));
    return out + Bytes(3, Bytes(1, "identity") + Bytes(2, charsmap) + Number(3, prefix_space) +
                              Number(4, removes_extra_spaces) + Number(5, escapes_spaces));
  }
};

// Ids: <unk> 0, <s> 1, </s> 2, the 256 bytes from 3, then ▁ 259, a 260, b 261, ▁a 262, ab 263, ▁ab 264.
inline SentencePieceBuilder TinySentencePiece() {
  SentencePieceBuilder builder{
      {{"<unk>", 0, PieceType::kUnknown}, {"<s>", 0, PieceType::kControl}, {"</s>", 0, PieceType::kControl}}};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const std::string text = {
        '<', '0', 'x', kDigits[static_cast<size_t>(byte / 16)], kDigits[static_cast<size_t>(byte % 16)], '>'};
    builder.pieces.push_back({text, 0, PieceType::kByte});
  }
  for (const auto& [text, score] : {std::pair("▁", -9.0f), std::pair("a", -9.0f), std::pair("b", -9.0f),
                                    std::pair("▁a", -2.0f), std::pair("ab", -1.0f), std::pair("▁ab", -3.0f)}) {
    builder.pieces.push_back({text, score});
  }
  return builder;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_MODEL_VOCABULARY_SENTENCEPIECE_BUILDER_H_
