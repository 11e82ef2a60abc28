#include "server/sessions/transfer/session_file.h"

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
constexpr uint8_t kPastSection = 1;  // 2: its KV, reserved
constexpr uint8_t kRequired = 1;     // flags: without this section the session is another one

absl::Status Wrong(std::string_view part, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(part), ": ", std::string(what)));
}

// The last four bytes are the checksum of those before.
bool ChecksumFits(std::string_view bytes) {
  const std::string_view checked = bytes.substr(0, bytes.size() - 4);
  return ByteReader(bytes.substr(checked.size())).Fixed<uint32_t>() == Crc32c(checked);
}

void AppendSection(uint8_t type, uint8_t flags, std::string_view content, std::string* out) {
  const size_t begin = out->size();
  PutFixed(type, out);
  PutFixed(flags, out);
  PutFixed(uint16_t{0}, out);
  PutFixed(Crc32c(content), out);
  PutFixed(uint64_t{content.size()}, out);
  PutFixed(Crc32c(std::string_view(*out).substr(begin)), out);
  out->append(content);
}

// Takes a section from the front of `*left`. Its content is nullopt where it is one to be passed over.
absl::StatusOr<std::optional<std::string_view>> TakeSection(int number, std::string_view* left) {
  const std::string part = absl::StrCat("section ", number);
  if (left->size() < kSectionBytes) return Wrong(part, "is cut off");
  if (!ChecksumFits(left->substr(0, kSectionBytes))) return Wrong(part, "its header is not what was written");
  ByteReader reader(*left);
  const auto type = reader.Fixed<uint8_t>(), flags = reader.Fixed<uint8_t>();
  reader.Fixed<uint16_t>();
  const auto crc = reader.Fixed<uint32_t>();
  const auto bytes = reader.Fixed<uint64_t>();
  left->remove_prefix(kSectionBytes);
  if (bytes > left->size()) return Wrong(part, "is cut off");
  const std::string_view content = left->substr(0, bytes);
  left->remove_prefix(bytes);
  if (Crc32c(content) != crc) return Wrong(part, "is not what was written");
  if (type == kPastSection) return content;
  if ((flags & kRequired) == 0) return std::nullopt;
  return absl::UnimplementedError(absl::StrCat(part, ": of kind ", type, ", which a later version needs"));
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

std::string WriteSessionFile(const SessionFile& file) {
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
  PutFixed(uint64_t{kStartBytes + header.size() + kSectionBytes + file.past.size()}, &out);
  PutFixed(uint32_t{0}, &out);
  PutFixed(Crc32c(out), &out);
  out.append(header);
  AppendSection(kPastSection, kRequired, file.past, &out);
  return out;
}

absl::StatusOr<SessionFile> ReadSessionFile(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return Wrong("start", "this is not a session's file");
  if (bytes.size() < kStartBytes) return Wrong("start", "is cut off");
  ByteReader reader(bytes.substr(kMagic.size()));
  const auto major = reader.Fixed<uint16_t>(), minor = reader.Fixed<uint16_t>();
  // Before the checksum, which may be elsewhere in another format.
  if (major != kSessionFileMajor) {
    return absl::UnimplementedError(absl::StrCat("start: format ", major, ".", minor, "; this version reads format ",
                                                 kSessionFileMajor, ".", kSessionFileMinor));
  }
  const auto header_bytes = reader.Fixed<uint32_t>();
  const auto all_bytes = reader.Fixed<uint64_t>();
  if (!ChecksumFits(bytes.substr(0, kStartBytes))) return Wrong("start", "is not what was written");
  if (all_bytes != bytes.size()) {
    return Wrong("start", absl::StrCat("the file should have ", all_bytes, " bytes and has ", bytes.size()));
  }
  std::string_view left = bytes.substr(kStartBytes);
  if (header_bytes < 4 || header_bytes > kHeaderBytesMax || header_bytes > left.size()) {
    return Wrong("header", "is cut off");
  }
  SessionFile file;
  if (absl::Status status = ReadHeader(left.substr(0, header_bytes), &file); !status.ok()) return status;
  left.remove_prefix(header_bytes);
  bool has_past = false;
  for (int number = 1; !left.empty(); ++number) {
    absl::StatusOr<std::optional<std::string_view>> past = TakeSection(number, &left);
    if (!past.ok()) return past.status();
    if (!past->has_value()) continue;
    if (has_past) return Wrong(absl::StrCat("section ", number), "is the second of its kind");
    has_past = true;
    file.past = **past;
  }
  if (!has_past) return Wrong("sections", "none has what the session said");
  return file;
}

}  // namespace hydrant
