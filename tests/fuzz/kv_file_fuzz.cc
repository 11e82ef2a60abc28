// Whatever is in a KV file, it is refused, or it is what a writer writes for the header that it has.
#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"
#include "server/sessions/kv/kv_file.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace {

KvReject Check(std::string_view file) {
  KvReject reject = KvReject::kNone;
  const std::optional<KvFileHeader> decoded = DecodeKvHeader(file, &reject);
  Require(decoded.has_value() == (reject == KvReject::kNone), "a reason is given where there is none");
  if (!decoded.has_value()) return reject;
  Require(decoded->file_bytes() > decoded->payload_bytes() && decoded->payload_bytes() > 0, "sizes do not overflow");
  KvFileHeader header;
  std::string_view payload;
  reject = ReadKvFile(file, decoded->format, &decoded->binding, &header, &payload);
  if (reject != KvReject::kNone) return reject;
  Require(std::ssize(payload) == header.payload_bytes(), "all of the payload is there");
  const std::string head = EncodeKvHead(header, std::as_bytes(std::span(payload)));
  const uint16_t minor = ByteReader(file.substr(10)).Fixed<uint16_t>();
  if (minor == kKvFileMinor) Require(file.starts_with(head), "it is written as it was");
  KvFormat other = header.format;
  other.model[0] ^= 1;
  Require(ReadKvFile(file, other, &header.binding, &header, &payload) == KvReject::kModel, "of these weights alone");
  KvBinding binding = header.binding;
  ++binding.turn;
  Require(ReadKvFile(file, header.format, &binding, &header, &payload) == KvReject::kTurn, "of this turn alone");
  return KvReject::kNone;
}

// What no fuzzer would find: the checksums of what it makes up. A header's own, and for one that says how much comes behind it also
// those of the table and the trailer.
std::string WithChecksums(std::string_view input) {
  std::string head(input.substr(0, std::min(input.size(), kKvHeaderBytes - 4)));
  head.replace(0, std::min<size_t>(head.size(), 8),
               std::string_view("HYDRKVF1").substr(0, std::min<size_t>(head.size(), 8)));
  head.resize(kKvHeaderBytes - 4, '\0');
  PutFixed(Crc32c(head), &head);
  KvReject reject = KvReject::kNone;
  const std::optional<KvFileHeader> decoded = DecodeKvHeader(head, &reject);
  if (!decoded.has_value() || decoded->payload_bytes() > (1 << 16)) return head;
  std::string payload(input.substr(std::min(input.size(), kKvHeaderBytes)));
  payload.resize(static_cast<size_t>(decoded->payload_bytes()), '\0');
  PutFixed(Crc32c(payload), &head);
  head.resize(static_cast<size_t>(decoded->head_bytes()), '\0');
  return head + payload + EncodeKvTrailer(*decoded, head);
}

}  // namespace

void Fuzz(std::string_view input) {
  (void)Check(input);
  const std::string made = WithChecksums(input);
  const KvReject reject = Check(made);
  // Checksums and sizes fit now wherever the header says something that there can be.
  if (made.size() > kKvHeaderBytes) {
    Require(reject == KvReject::kNone || reject == KvReject::kPositions, "nothing else is left to refuse");
  }
  (void)ParseKvFileName(input);
}

}  // namespace hydrant
