#include "model/tokenizer/token_decoder.h"

#include <algorithm>

#include "model/files/file_error.h"
#include "model/text/utf8.h"
#include "model/tokenizer/byte_alphabet.h"

namespace hydrant {
namespace {

using DecoderKind = DecoderStep::Kind;

std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view by) {
  std::string out;
  while (true) {
    const size_t at = text.find(pattern);
    out.append(text.substr(0, at));
    if (at == text.npos) return out;
    out.append(by);
    text.remove_prefix(at + pattern.size());
  }
}

std::string Strip(std::string_view text, const DecoderStep& step) {
  for (int32_t i = 0; i < step.start && text.starts_with(step.content); ++i) text.remove_prefix(step.content.size());
  for (int32_t i = 0; i < step.stop && text.ends_with(step.content); ++i) text.remove_suffix(step.content.size());
  return std::string(text);
}

bool IsOneCharacter(std::string_view text) { return !text.empty() && NextUtf8Unit(text).bytes == text.size(); }

}  // namespace

absl::StatusOr<TokenDecoder> TokenDecoder::Create(const std::vector<DecoderStep>& steps, std::string_view file) {
  // Published decoders have at most five.
  constexpr size_t kStepsMax = 16;
  if (steps.size() > kStepsMax) {
    return FileError(file, "decoder", "has ", steps.size(), " steps; at most ", kStepsMax, " are supported");
  }
  TokenDecoder decoder;
  bool fused = false, bytes = false;
  for (const DecoderStep& step : steps) {
    const auto refuse = [&](std::string_view what) {
      return FileError(file, "decoder", what, " after ", bytes ? "ByteLevel" : "Fuse", " is not supported");
    };
    switch (step.kind) {
      case DecoderKind::kFuse:
        fused = true;
        continue;
      case DecoderKind::kReplace:
        if (step.pattern.empty()) return FileError(file, "decoder", "Replace of an empty string");
        decoder.growth_ *=
            std::max(1.0, static_cast<double>(step.content.size()) / static_cast<double>(step.pattern.size()));
        // One character is never torn between tokens.
        if (bytes || (fused && !IsOneCharacter(step.pattern))) return refuse("Replace");
        break;
      case DecoderKind::kByteLevel:
        if (bytes || fused) return refuse("ByteLevel");
        bytes = true;
        break;
      case DecoderKind::kByteFallback:
        if (bytes || fused) return refuse("ByteFallback");
        decoder.text_rules_.replaces_each_byte = true;
        break;
      case DecoderKind::kStrip:
        if (bytes || step.content.size() != 1) return refuse("Strip");
        if (!fused) break;
        if (step.stop > 0 || decoder.text_rules_.leading_dropped > 0) return refuse("Strip at the end");
        decoder.text_rules_.leading_dropped = step.start;
        decoder.text_rules_.leading = step.content[0];
        continue;
      case DecoderKind::kMetaspace:
        if (step.pattern.empty()) return FileError(file, "decoder", "Metaspace of an empty string");
        if (bytes || fused) return refuse("Metaspace");
        decoder.first_differs_ = decoder.first_differs_ || step.drops_first;
        break;
    }
    decoder.steps_.push_back(step);
  }
  return decoder;
}

void TokenDecoder::AppendBytes(std::string_view piece, bool first, std::string& out) const {
  std::string text(piece);
  for (const DecoderStep& step : steps_) {
    switch (step.kind) {
      case DecoderKind::kReplace:
        text = ReplaceAll(text, step.pattern, step.content);
        break;
      case DecoderKind::kByteLevel: {
        std::string spelled;
        AppendSpelledBytes(text, spelled);
        text = std::move(spelled);
        break;
      }
      case DecoderKind::kByteFallback:
        if (const int byte = ByteOfPiece(text); byte >= 0) {
          out += static_cast<char>(byte);
          return;
        }
        break;
      case DecoderKind::kStrip:
        text = Strip(text, step);
        break;
      case DecoderKind::kMetaspace:
        text = ReplaceAll(text, step.pattern, first && step.drops_first ? "" : " ");
        break;
      case DecoderKind::kFuse:
        break;
    }
  }
  out.append(text);
}

int ByteOfPiece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int byte = 0;
  for (const char c : piece.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    byte = byte * 16 + digit;
  }
  return byte;
}

bool IsBytePiece(std::string_view piece) {
  return ByteOfPiece(piece) >= 0 &&
         std::none_of(piece.begin(), piece.end(), [](char c) { return c >= 'a' && c <= 'f'; });
}

}  // namespace hydrant
