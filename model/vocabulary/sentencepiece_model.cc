// A reader of the few fields of ModelProto that say how to tokenize, instead of libsentencepiece and libprotobuf: those would
// bring a second tokenizer and 5 MB for what is one screen of wire format.
#include <bit>
#include <bitset>
#include <cstring>
#include <string>

#include "model/files/file_error.h"
#include "model/text/str_cat.h"
#include "model/text/utf8.h"
#include "model/tokenizer/token_decoder.h"
#include "model/vocabulary/sentencepiece.h"

namespace hydrant {
namespace {

// Walks the fields of one protobuf message.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  // The next field; false at the end, or when the bytes are no message.
  bool Next() {
    uint64_t tag = 0;
    if (rest_.empty() || !(valid_ = Varint(tag))) return false;
    field = static_cast<uint32_t>(tag >> 3);
    wire_type = static_cast<uint32_t>(tag & 7);
    bytes = {};
    number = 0;
    valid_ = field != 0 && Value();
    return valid_;
  }
  bool valid() const { return valid_; }

  uint32_t field = 0, wire_type = 0;
  uint64_t number = 0;     // of varints and fixed numbers
  std::string_view bytes;  // of length-delimited fields

  bool IsBytes() const { return wire_type == 2; }
  bool IsVarint() const { return wire_type == 0; }
  bool IsFloat() const { return wire_type == 5; }
  float Float() const { return std::bit_cast<float>(static_cast<uint32_t>(number)); }

 private:
  bool Value() {
    switch (wire_type) {
      case 0:
        return Varint(number);
      case 1:
        return Fixed(8);
      case 2: {
        uint64_t size = 0;
        if (!Varint(size) || size > rest_.size()) return false;
        bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
      }
      case 5:
        return Fixed(4);
      default:
        return false;  // groups are long gone
    }
  }

  bool Varint(uint64_t& out) {
    out = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      out |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool Fixed(size_t size) {
    if (rest_.size() < size) return false;
    std::memcpy(&number, rest_.data(), size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  bool valid_ = true;
};

absl::Status NotAMessage(std::string_view file) { return FileError(file, "", "is not a SentencePiece model"); }

// ModelProto.SentencePiece: piece = 1, score = 2, type = 3.
absl::Status ReadPiece(std::string_view bytes, std::string_view file, SentencePieceVocabulary& vocabulary) {
  std::string_view piece;
  float score = 0;
  uint64_t type = static_cast<uint64_t>(PieceType::kNormal);
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field == 1 && reader.IsBytes()) piece = reader.bytes;
    if (reader.field == 2 && reader.IsFloat()) score = reader.Float();
    if (reader.field == 3 && reader.IsVarint()) type = reader.number;
  }
  if (!reader.valid()) return NotAMessage(file);
  const size_t id = vocabulary.pieces.size();
  if (type < 1 || type > 6) return FileError(file, StrCat("piece ", id), "has type ", type);
  if (piece.empty() || ValidUtf8Prefix(piece) < piece.size()) {
    return FileError(file, StrCat("piece ", id), Quoted(piece), " is empty or not UTF-8");
  }
  if (static_cast<PieceType>(type) == PieceType::kByte && !IsBytePiece(piece)) {
    return FileError(file, StrCat("piece ", id), Quoted(piece), " is a byte by its type and none of <0x00> to <0xFF>");
  }
  vocabulary.pieces.push_back(piece);
  vocabulary.scores.push_back(score);
  vocabulary.types.push_back(static_cast<PieceType>(type));
  return absl::OkStatus();
}

// TrainerSpec: model_type = 3, treat_whitespace_as_suffix = 24, bos_id = 41, eos_id = 42.
absl::Status ReadTrainerSpec(std::string_view bytes, std::string_view file, SentencePieceVocabulary& vocabulary) {
  constexpr uint64_t kBpe = 2;
  uint64_t model_type = 1;  // the default, a unigram model
  vocabulary.bos_id = 1;    // defaults as well
  vocabulary.eos_id = 2;
  WireReader reader(bytes);
  while (reader.Next()) {
    if (!reader.IsVarint()) continue;
    if (reader.field == 3) model_type = reader.number;
    if (reader.field == 24 && reader.number != 0) {
      return FileError(file, "trainer_spec", "treat_whitespace_as_suffix is not supported");
    }
    // Negative numbers are written as 64 bits; -1 says that there is none.
    if (reader.field == 41) vocabulary.bos_id = static_cast<int32_t>(reader.number);
    if (reader.field == 42) vocabulary.eos_id = static_cast<int32_t>(reader.number);
  }
  if (!reader.valid()) return NotAMessage(file);
  if (model_type != kBpe) {
    const std::string name = model_type == 1   ? "unigram"
                             : model_type == 3 ? "word"
                             : model_type == 4 ? "char"
                                               : StrCat(model_type);
    return FileError(file, "trainer_spec", "model type ", Quoted(name), " is not supported ('bpe' is)");
  }
  return absl::OkStatus();
}

// NormalizerSpec: name = 1, precompiled_charsmap = 2, add_dummy_prefix = 3, remove_extra_whitespaces = 4,
// escape_whitespaces = 5.
absl::Status ReadNormalizerSpec(std::string_view bytes, std::string_view file, SentencePieceVocabulary& vocabulary) {
  std::string_view name, charsmap;
  vocabulary.removes_extra_spaces = true;  // the default
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field == 1 && reader.IsBytes()) name = reader.bytes;
    if (reader.field == 2 && reader.IsBytes()) charsmap = reader.bytes;
    if (!reader.IsVarint()) continue;
    if (reader.field == 3) vocabulary.prefix_space = reader.number != 0;
    if (reader.field == 4) vocabulary.removes_extra_spaces = reader.number != 0;
    if (reader.field == 5 && reader.number == 0) {
      return FileError(file, "normalizer_spec", "escape_whitespaces off is not supported");
    }
  }
  if (!reader.valid()) return NotAMessage(file);
  if (!charsmap.empty()) {
    return FileError(file, "normalizer_spec", "the normalisation ", Quoted(name), " is not supported ('identity' is)");
  }
  return absl::OkStatus();
}

// SentencePiece takes all bytes or none.
absl::Status CheckBytes(const SentencePieceVocabulary& vocabulary, std::string_view file) {
  std::bitset<256> bytes;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    if (vocabulary.types[id] == PieceType::kByte) bytes.set(static_cast<size_t>(ByteOfPiece(vocabulary.pieces[id])));
  }
  if (bytes.none() || bytes.all()) return absl::OkStatus();
  return FileError(file, "pieces", bytes.count(), " of the 256 bytes are there");
}

}  // namespace

absl::StatusOr<SentencePieceVocabulary> ReadSentencePieceModel(std::string_view bytes, std::string_view file) {
  SentencePieceVocabulary vocabulary;
  bool trainer_seen = false;
  WireReader reader(bytes);
  while (reader.Next()) {
    if (!reader.IsBytes()) continue;
    if (reader.field == 1) HYDRANT_RETURN_IF_ERROR(ReadPiece(reader.bytes, file, vocabulary));
    if (reader.field == 2) HYDRANT_RETURN_IF_ERROR(ReadTrainerSpec(reader.bytes, file, vocabulary));
    if (reader.field == 3) HYDRANT_RETURN_IF_ERROR(ReadNormalizerSpec(reader.bytes, file, vocabulary));
    trainer_seen = trainer_seen || reader.field == 2;
  }
  if (!reader.valid() || !trainer_seen || vocabulary.pieces.empty()) return NotAMessage(file);
  HYDRANT_RETURN_IF_ERROR(CheckBytes(vocabulary, file));
  const auto size = static_cast<int32_t>(vocabulary.pieces.size());
  if (vocabulary.bos_id >= size || vocabulary.eos_id >= size) {
    return FileError(file, "trainer_spec", "bos_id ", vocabulary.bos_id, " or eos_id ", vocabulary.eos_id,
                     " is not in the vocabulary");
  }
  return vocabulary;
}

}  // namespace hydrant
