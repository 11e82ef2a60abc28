#include "server/sessions/transfer/session_file.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

constexpr std::string_view kMagic = "HYDRNTS1";
constexpr size_t kStartBytes = 32;
constexpr size_t kSectionBytes = 20;
constexpr uint32_t kHeaderBytesMax = 64 << 10;
constexpr uint8_t kPastSection = 1;
constexpr uint8_t kKvSection = 2;
constexpr uint8_t kRequired = 1;  // flags: without this section the session is another one

absl::Status Wrong(std::string_view part, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(part), ": ", std::string(what)));
}

// The last four bytes are the checksum of those before.
bool ChecksumFits(std::string_view bytes) {
  const std::string_view checked = bytes.substr(0, bytes.size() - 4);
  return ByteReader(bytes.substr(checked.size())).Fixed<uint32_t>() == Crc32c(checked);
}

void AppendSectionHead(uint8_t type, uint8_t flags, uint32_t crc, uint64_t bytes, std::string* out) {
  const size_t begin = out->size();
  PutFixed(type, out);
  PutFixed(flags, out);
  PutFixed(uint16_t{0}, out);
  PutFixed(crc, out);
  PutFixed(bytes, out);
  PutFixed(Crc32c(std::string_view(*out).substr(begin)), out);
}

absl::Status ReadHeader(std::string_view header, SessionFile* file) {
  if (!ChecksumFits(header)) return Wrong("header", "is not what was written");
  ByteReader reader(header.substr(0, header.size() - 4));
  file->model = reader.Array<std::tuple_size_v<decltype(file->model)>>();
  file->turn = reader.Fixed<uint64_t>();
  file->used_s = reader.Fixed<int64_t>();
  std::string_view left = reader.left();
  std::optional<SessionFacts> facts = TakeFacts(&left);
  if (!reader.ok() || !facts.has_value()) return Wrong("header", "is cut off");
  // Numbers that are counted on from: none is so large that it would come round.
  if (file->turn == 0 || file->turn > (uint64_t{1} << 62)) return Wrong("header", "turn is out of range");
  file->facts = *std::move(facts);
  return absl::OkStatus();
}

}  // namespace

std::string WriteSessionHead(const SessionFile& file, uint64_t kv_bytes, uint32_t kv_crc) {
  std::string header;
  PutArray(file.model, &header);
  PutFixed(file.turn, &header);
  PutFixed(file.used_s, &header);
  AppendFacts(file.facts, &header);
  PutFixed(Crc32c(header), &header);
  std::string out(kMagic);
  PutFixed(kSessionFileMajor, &out);
  PutFixed(kSessionFileMinor, &out);
  PutFixed(static_cast<uint32_t>(header.size()), &out);
  const uint64_t kv_section = kv_bytes == 0 ? 0 : kSectionBytes + kv_bytes;
  PutFixed(uint64_t{kStartBytes + header.size() + kSectionBytes + file.past.size()} + kv_section, &out);
  PutFixed(uint32_t{0}, &out);
  PutFixed(Crc32c(out), &out);
  out.append(header);
  AppendSectionHead(kPastSection, kRequired, Crc32c(file.past), file.past.size(), &out);
  out.append(file.past);
  if (kv_bytes > 0) AppendSectionHead(kKvSection, /*flags=*/0, kv_crc, kv_bytes, &out);
  return out;
}

std::string WriteSessionFile(const SessionFile& file) { return WriteSessionHead(file, 0, 0); }

std::string SessionFileReader::Name() const {
  if (part_ == Part::kStart) return "start";
  return part_ == Part::kHeader ? "header" : absl::StrCat("section ", section_);
}

absl::Status SessionFileReader::Take(std::string_view bytes) {
  while (!bytes.empty()) {
    if (part_ == Part::kEnd) return Wrong("start", "the file has more bytes than it says");
    const uint64_t wanted = part_ == Part::kContent ? content_left_ : part_bytes_ - buffer_.size();
    const std::string_view piece = bytes.substr(0, static_cast<size_t>(std::min<uint64_t>(wanted, bytes.size())));
    bytes.remove_prefix(piece.size());
    read_ += piece.size();
    absl::Status status;
    if (part_ == Part::kContent) {
      status = TakeContent(piece);
    } else {
      buffer_.append(piece);
      if (buffer_.size() == part_bytes_) status = TakePart();
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status SessionFileReader::TakePart() {
  absl::Status status;
  if (part_ == Part::kStart) {
    status = TakeStart();
  } else if (part_ == Part::kHeader) {
    status = ReadHeader(buffer_, &file_);
    part_ = read_ == bytes_ ? Part::kEnd : Part::kSection;
    part_bytes_ = kSectionBytes;
    section_ = 1;
  } else {
    status = TakeSection();
  }
  buffer_.clear();
  return status;
}

absl::Status SessionFileReader::TakeStart() {
  ByteReader reader(buffer_);
  if (reader.Bytes(kMagic.size()) != kMagic) return Wrong("start", "this is not a session's file");
  const auto major = reader.Fixed<uint16_t>(), minor = reader.Fixed<uint16_t>();
  // Before the checksum, which may be elsewhere in another format.
  if (major != kSessionFileMajor) {
    return absl::UnimplementedError(absl::StrCat("start: format ", major, ".", minor, "; this version reads format ",
                                                 kSessionFileMajor, ".", kSessionFileMinor));
  }
  const auto header_bytes = reader.Fixed<uint32_t>();
  const auto all_bytes = reader.Fixed<uint64_t>();
  if (!ChecksumFits(buffer_)) return Wrong("start", "is not what was written");
  if (all_bytes != bytes_) {
    return Wrong("start", absl::StrCat("the file should have ", all_bytes, " bytes and has ", bytes_));
  }
  if (header_bytes < 4 || header_bytes > kHeaderBytesMax || header_bytes > bytes_ - read_) {
    return Wrong("header", "is cut off");
  }
  part_ = Part::kHeader;
  part_bytes_ = header_bytes;
  return absl::OkStatus();
}

absl::Status SessionFileReader::TakeSection() {
  if (!ChecksumFits(buffer_)) return Wrong(Name(), "its header is not what was written");
  ByteReader reader(buffer_);
  type_ = reader.Fixed<uint8_t>();
  const auto flags = reader.Fixed<uint8_t>();
  reader.Fixed<uint16_t>();
  crc_said_ = reader.Fixed<uint32_t>();
  content_left_ = reader.Fixed<uint64_t>();
  if (content_left_ > bytes_ - read_) return Wrong(Name(), "is cut off");
  if ((type_ == kPastSection && has_past_) || (type_ == kKvSection && has_kv_)) {
    return Wrong(Name(), "is the second of its kind");
  }
  if (type_ == kPastSection && content_left_ > past_bytes_max_) {
    return absl::ResourceExhaustedError(absl::StrCat(Name(), ": what the session said has ", content_left_, " bytes"));
  }
  if (type_ == kKvSection && !has_past_) return Wrong(Name(), "KV comes before what the session said");
  if (type_ != kPastSection && type_ != kKvSection && (flags & kRequired) != 0) {
    return absl::UnimplementedError(absl::StrCat(Name(), ": of kind ", type_, ", which a later version needs"));
  }
  has_past_ = has_past_ || type_ == kPastSection;
  has_kv_ = has_kv_ || type_ == kKvSection;
  crc_ = 0;
  part_ = Part::kContent;
  if (type_ == kKvSection && kv_.begin != nullptr) {
    if (absl::Status status = kv_.begin(file_, content_left_); !status.ok()) return status;
  }
  return content_left_ == 0 ? EndSection() : absl::OkStatus();
}

absl::Status SessionFileReader::TakeContent(std::string_view piece) {
  crc_ = Crc32cOfBoth(crc_, Crc32c(piece), piece.size());
  content_left_ -= piece.size();
  if (type_ == kPastSection) file_.past.append(piece);
  if (type_ == kKvSection && kv_.take != nullptr) {
    if (absl::Status status = kv_.take(piece); !status.ok()) return status;
  }
  return content_left_ == 0 ? EndSection() : absl::OkStatus();
}

absl::Status SessionFileReader::EndSection() {
  if (crc_ != crc_said_) return Wrong(Name(), "is not what was written");
  part_ = read_ == bytes_ ? Part::kEnd : Part::kSection;
  ++section_;
  return absl::OkStatus();
}

absl::Status SessionFileReader::Finish() {
  const bool no_magic = part_ == Part::kStart && !std::string_view(buffer_).starts_with(kMagic);
  if (no_magic) return Wrong("start", "this is not a session's file");
  if (part_ != Part::kEnd) return Wrong(Name(), "is cut off");
  return has_past_ ? absl::OkStatus() : Wrong("sections", "none has what the session said");
}

absl::StatusOr<SessionFile> ReadSessionFile(std::string_view bytes) {
  SessionFileReader reader(bytes.size(), bytes.size());
  absl::Status status = reader.Take(bytes);
  if (status.ok()) status = reader.Finish();
  if (!status.ok()) return status;
  return std::move(reader.file());
}

}  // namespace hydrant
