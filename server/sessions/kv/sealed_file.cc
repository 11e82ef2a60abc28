#include "server/sessions/kv/sealed_file.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

constexpr uint16_t kVersion = 1;
constexpr int64_t kFirstBytes = 4096;  // a header by itself
constexpr int64_t kPieceBytes = 1 << 20;
constexpr auto kTag = static_cast<int64_t>(kSealTagBytes);
constexpr int64_t kTextBytesMax = int64_t{1} << 46;
constexpr std::string_view kSealedKv = "kv";

int64_t PieceOf(int64_t offset) { return offset < kFirstBytes ? 0 : 1 + (offset - kFirstBytes) / kPieceBytes; }
// Where piece `i` lies in the text: [first, second).
std::pair<int64_t, int64_t> RangeOf(int64_t i, int64_t text_bytes) {
  const int64_t begin = i == 0 ? 0 : kFirstBytes + (i - 1) * kPieceBytes;
  return {begin, std::min(text_bytes, i == 0 ? kFirstBytes : begin + kPieceBytes)};
}

std::string_view View(const SessionName& name) { return {reinterpret_cast<const char*>(name.data()), name.size()}; }

}  // namespace

int64_t SealedBytes(int64_t text_bytes) {
  return static_cast<int64_t>(kSealedHeadBytes) + text_bytes +
         (PieceOf(std::max<int64_t>(1, text_bytes) - 1) + 1) * kTag;
}

SealedWriter::SealedWriter(LogDirectory& directory, int fd, const SessionKeys& keys, const SessionName& session,
                           uint64_t turn, int64_t text_bytes)
    : directory_(directory), fd_(fd), left_(text_bytes) {
  const SessionKeys::Message message = keys.Begin(kSealedKv, View(session));
  key_ = message.key;
  head_ = kSealedMagic;
  PutFixed(kVersion, &head_);
  PutFixed(uint16_t{0}, &head_);
  PutArray(message.id, &head_);
  PutArray(message.salt, &head_);
  PutArray(session, &head_);
  PutFixed(turn, &head_);
  PutFixed(text_bytes, &head_);
  PutFixed(Crc32c(head_), &head_);
  assert(head_.size() == kSealedHeadBytes);
  buffer_.reserve(static_cast<size_t>(std::min(std::max(text_bytes, kFirstBytes), kPieceBytes) + kTag));
}

// What is in buffer_ is a piece.
int SealedWriter::WritePiece() {
  if (piece_ < 0) {
    if (const int error = WriteAll(directory_, fd_, head_); error < 0) return error;
    piece_ = 0;
  }
  const size_t bytes = buffer_.size();
  buffer_.resize(bytes + kSealTagBytes);
  Seal(key_, static_cast<uint64_t>(piece_++), head_, std::string_view(buffer_).substr(0, bytes), buffer_.data());
  const int error = WriteAll(directory_, fd_, buffer_);
  buffer_.clear();
  return error;
}

int SealedWriter::Append(std::string_view text) {
  assert(std::ssize(text) <= left_);
  while (!text.empty()) {
    const int64_t piece_bytes = piece_ < 0 ? kFirstBytes : kPieceBytes;
    const auto taken = static_cast<size_t>(std::min<int64_t>(piece_bytes - std::ssize(buffer_), std::ssize(text)));
    buffer_.append(text.substr(0, taken));
    text.remove_prefix(taken);
    left_ -= static_cast<int64_t>(taken);
    if (left_ > 0 && std::ssize(buffer_) < piece_bytes) continue;
    if (const int error = WritePiece(); error < 0) return error;
  }
  return 0;
}

std::unique_ptr<SealedReader> SealedReader::Open(LogDirectory& directory, int fd, const SessionKeys& keys,
                                                 KvReject* reject) {
  std::unique_ptr<SealedReader> reader(new SealedReader(directory, fd));
  reader->head_.resize(kSealedHeadBytes);
  *reject = KvReject::kIo;
  const int64_t got = ReadAll(directory, fd, reader->head_.data(), kSealedHeadBytes, 0);
  const int64_t size = got < 0 ? got : directory.Size(fd);
  if (size < 0) return nullptr;
  const std::string_view head(reader->head_.data(), static_cast<size_t>(got));
  *reject = KvReject::kKey;
  if (!head.starts_with(kSealedMagic)) return nullptr;
  *reject = KvReject::kShort;
  if (head.size() < kSealedHeadBytes) return nullptr;
  ByteReader numbers(head.substr(kSealedMagic.size()));
  const auto version = numbers.Fixed<uint16_t>();
  numbers.Fixed<uint16_t>();
  const auto id = numbers.Array<std::tuple_size_v<SessionKeys::Id>>();
  const auto salt = numbers.Array<std::tuple_size_v<SessionKeys::Salt>>();
  reader->session_ = numbers.Array<std::tuple_size_v<SessionName>>();
  reader->turn_ = numbers.Fixed<uint64_t>();
  reader->text_bytes_ = numbers.Fixed<int64_t>();
  *reject = KvReject::kDamaged;
  if (numbers.Fixed<uint32_t>() != Crc32c(head.substr(0, head.size() - sizeof(uint32_t)))) return nullptr;
  *reject = KvReject::kOtherVersion;
  if (version != kVersion) return nullptr;
  *reject = KvReject::kShort;
  if (reader->text_bytes_ < 1 || reader->text_bytes_ > kTextBytesMax || size != SealedBytes(reader->text_bytes_)) {
    return nullptr;
  }
  *reject = KvReject::kKey;
  const std::optional<SealKey> key = keys.KeyOf(id, salt, kSealedKv, View(reader->session_));
  if (!key.has_value()) return nullptr;
  reader->key_ = *key;
  reader->is_current_ = id == keys.ids().front();
  *reject = KvReject::kNone;
  return reader;
}

KvReject SealedReader::Read(char* out, int64_t bytes, int64_t offset) {
  assert(offset >= 0 && bytes >= 0 && offset + bytes <= text_bytes_);
  while (bytes > 0) {
    const int64_t piece = PieceOf(offset);
    const auto [begin, end] = RangeOf(piece, text_bytes_);
    if (piece_ != piece) {
      piece_ = -1;
      buffer_.resize(static_cast<size_t>(end - begin + kTag));
      const int64_t at = static_cast<int64_t>(kSealedHeadBytes) + begin + piece * kTag;
      const int64_t got = ReadAll(directory_, fd_, buffer_.data(), buffer_.size(), at);
      if (got < 0) return KvReject::kIo;
      if (got != std::ssize(buffer_)) return KvReject::kShort;
      if (!Unseal(key_, static_cast<uint64_t>(piece), head_, buffer_, buffer_.data())) return KvReject::kDamaged;
      piece_ = piece;
    }
    const int64_t taken = std::min(bytes, end - offset);
    std::memcpy(out, buffer_.data() + (offset - begin), static_cast<size_t>(taken));
    out += taken;
    offset += taken;
    bytes -= taken;
  }
  return KvReject::kNone;
}

void SealedReader::Forget() {
  piece_ = -1;
  std::string().swap(buffer_);
}

}  // namespace hydrant
