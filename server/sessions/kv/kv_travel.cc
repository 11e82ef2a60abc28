#include "server/sessions/kv/kv_travel.h"

#include <algorithm>
#include <utility>

#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

std::unique_ptr<KvOutgoing> KvOutgoing::Open(KvDisk& disk, std::shared_ptr<const OpenKvFile> file, KvReject* reject) {
  std::string head;
  *reject = disk.ReadHead(*file, &head);
  if (*reject != KvReject::kNone) return nullptr;
  std::unique_ptr<KvOutgoing> out(new KvOutgoing(disk, std::move(file)));
  KvFileHeader& header = out->header_;
  header = out->file_->header();
  header.format.directory = {};
  header.binding.session = {};
  header.base_turn = 0;  // the chunks are all of it, wherever they lie here
  header.base_bytes = 0;
  out->head_ = EncodeKvHeader(header) + head.substr(kKvHeaderBytes);
  out->trailer_ = EncodeKvTrailer(header, out->head_);
  uint32_t crc = Crc32c(out->head_);
  for (int64_t i = 0; i < header.chunks(); ++i) {
    const auto [begin, end] = ChunkRange(header, i);
    crc = Crc32cOfBoth(crc, CrcOfChunk(out->head_, i), static_cast<uint64_t>(end - begin));
  }
  out->crc_ = Crc32cOfBoth(crc, Crc32c(out->trailer_), kKvTrailerBytes);
  return out;
}

KvReject KvOutgoing::Next(std::string* piece) {
  const int64_t i = next_++;
  piece->clear();
  if (i < 0) *piece = head_;
  if (i == header_.chunks()) *piece = trailer_;
  if (i < 0 || i >= header_.chunks()) return KvReject::kNone;
  const auto [begin, end] = ChunkRange(header_, i);
  piece->resize(static_cast<size_t>(end - begin));
  const KvReject reject = disk_.ReadChunk(*file_, head_, i, std::as_writable_bytes(std::span(*piece)));
  if (reject != KvReject::kNone && on_damage_) on_damage_(reject);
  return reject;
}

KvIncoming::KvIncoming(LogDirectory& directory, const SessionKeys* keys, KvFormat format, KvBinding expected,
                       std::string unfinished)
    : directory_(directory),
      keys_(keys),
      format_(std::move(format)),
      expected_(std::move(expected)),
      unfinished_(std::move(unfinished)) {}

KvIncoming::~KvIncoming() {
  if (fd_ >= 0) directory_.Close(fd_);
  if (created_ && !adopted_) directory_.Remove(unfinished_);
  if (on_end_) on_end_(let_in_bytes_);
}

KvReject KvIncoming::Take(std::string_view piece) {
  while (reject_ == KvReject::kNone && !piece.empty()) {
    if (part_ == Part::kEnd) return reject_ = KvReject::kShort;
    const std::string_view taken = piece.substr(0, part_bytes_ - buffer_.size());
    buffer_.append(taken);
    piece.remove_prefix(taken.size());
    if (buffer_.size() < part_bytes_) break;
    switch (part_) {
      case Part::kHeader:
        reject_ = TakeHeader();
        break;
      case Part::kTable:
        reject_ = TakeTable();
        break;
      case Part::kPayload:
        reject_ = TakeChunk();
        break;
      case Part::kTrailer:
        reject_ = TakeTrailer();
        break;
      case Part::kEnd:
        break;
    }
    buffer_.clear();
  }
  return reject_;
}

KvReject KvIncoming::TakeHeader() {
  KvReject reject = KvReject::kNone;
  const std::optional<KvFileHeader> header = DecodeKvHeader(buffer_, &reject);
  if (!header.has_value()) return reject;
  if (header->base_turn != 0) return KvReject::kShort;
  sent_ = header_ = *header;
  if (sent_.format.directory != DirectoryId{}) return KvReject::kDirectory;
  if (sent_.binding.session != SessionName{}) return KvReject::kSession;
  header_.format.directory = format_.directory;
  header_.binding.session = expected_.session;
  reject = CheckKvFormat(header_.format, format_);
  if (reject == KvReject::kNone) reject = CheckKvBinding(header_.binding, expected_);
  if (reject != KvReject::kNone) return reject;
  head_sent_ = buffer_;
  part_ = Part::kTable;
  // Its length is bounded: it stands for no more tokens than this history has.
  part_bytes_ = static_cast<size_t>(header_.head_bytes()) - kKvHeaderBytes;
  return KvReject::kNone;
}

KvReject KvIncoming::TakeTable() {
  head_sent_ += buffer_;
  head_ = EncodeKvHeader(header_) + buffer_;
  directory_.Remove(unfinished_);  // of a process that did not come further
  fd_ = directory_.Create(unfinished_);
  if (fd_ < 0) return KvReject::kIo;
  created_ = true;
  if (keys_ != nullptr) {
    const KvBinding& binding = header_.binding;
    sealed_.emplace(directory_, fd_, *keys_, binding.session, binding.turn, header_.file_bytes());
  }
  part_ = Part::kPayload;
  const auto [begin, end] = ChunkRange(header_, 0);
  part_bytes_ = static_cast<size_t>(end - begin);
  return Append(head_);
}

KvReject KvIncoming::TakeChunk() {
  if (!ChunkFits(head_sent_, next_chunk_, buffer_)) return KvReject::kDamaged;
  KvReject reject = CheckBlocks(buffer_);
  if (reject == KvReject::kNone) reject = Append(buffer_);
  if (++next_chunk_ < header_.chunks()) {
    const auto [begin, end] = ChunkRange(header_, next_chunk_);
    part_bytes_ = static_cast<size_t>(end - begin);
  } else {
    part_ = Part::kTrailer;
    part_bytes_ = kKvTrailerBytes;
  }
  return reject;
}

KvReject KvIncoming::CheckBlocks(std::string_view bytes) {
  const auto block_bytes = static_cast<size_t>(header_.format.block_bytes);
  while (!bytes.empty()) {
    const std::string_view taken = bytes.substr(0, block_bytes - block_.size());
    block_.append(taken);
    bytes.remove_prefix(taken.size());
    if (block_.size() < block_bytes) break;
    const bool fits = CheckBlockPositions(header_, next_block_, BytesOf(block_)) &&
                      CheckBlockScores(header_, next_block_, BytesOf(block_));
    if (!fits) return KvReject::kPositions;
    ++next_block_;
    block_.clear();
  }
  return KvReject::kNone;
}

KvReject KvIncoming::TakeTrailer() {
  const KvReject reject = CheckKvFile(sent_, head_sent_, buffer_, sent_.file_bytes());
  part_ = Part::kEnd;
  return reject == KvReject::kNone ? Append(EncodeKvTrailer(header_, head_)) : reject;
}

KvReject KvIncoming::Append(std::string_view bytes) {
  if (let_in_ && !let_in_(let_in_bytes_, std::ssize(bytes))) return KvReject::kBusy;
  let_in_bytes_ += std::ssize(bytes);
  const int error = sealed_.has_value() ? sealed_->Append(bytes) : WriteAll(directory_, fd_, bytes);
  return error == 0 ? KvReject::kNone : KvReject::kIo;
}

KvReject KvIncoming::Finish() {
  if (reject_ != KvReject::kNone) return reject_;
  if (part_ != Part::kEnd) return KvReject::kShort;
  const int error = directory_.Sync(fd_);
  directory_.Uncache(fd_);
  directory_.Close(std::exchange(fd_, -1));
  return reject_ = error == 0 ? KvReject::kNone : KvReject::kIo;
}

}  // namespace hydrant
