#include "server/sessions/kv/kv_disk.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <optional>

#include "server/sessions/kv/kv_travel.h"

namespace hydrant {
namespace {

constexpr auto kTableChunk = static_cast<int64_t>(kKvChunkBytes);

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

int RemoveKvFiles(LogDirectory& directory) {
  std::vector<std::string> names;
  int error = directory.List(&names);
  int64_t removed = 0;
  for (const std::string& name : names) {
    if (!ParseKvFileName(name).has_value() && !name.ends_with(".kv.tmp")) continue;  // none of ours
    ++removed;
    if (const int failed = directory.Remove(name); failed < 0 && failed != -ENOENT) error = failed;
  }
  return error == 0 && removed > 0 ? directory.SyncNames() : error;
}

int KvDisk::Write(const KvFileHeader& header, std::string_view head, std::span<const std::byte> payload,
                  const std::function<void(int64_t)>& wrote) {
  assert(header.format == format_ && std::ssize(head) == header.head_bytes());
  const std::string name = KvFileName(header.binding.session, header.binding.turn);
  const std::string unfinished = name + ".tmp";
  directory_->Remove(unfinished);  // of a write that did not come further
  const int fd = directory_->Create(unfinished);
  if (fd < 0) return fd;
  std::optional<SealedWriter> sealed;
  if (keys_ != nullptr) {
    sealed.emplace(*directory_, fd, *keys_, header.binding.session, header.binding.turn, header.file_bytes());
  }
  const auto append = [&](std::string_view bytes) {
    return sealed.has_value() ? sealed->Append(bytes) : WriteAll(*directory_, fd, bytes);
  };
  int error = append(head);
  // Bit by bit: whoever else writes to the disk comes in between.
  for (int64_t i = header.base_bytes / kTableChunk; error == 0 && i < header.chunks(); ++i) {
    const auto [begin, end] = ChunkRange(header, i);
    error = append(TextOf(payload.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))));
    if (wrote && error == 0) wrote(end - begin);
  }
  if (error == 0) error = append(EncodeKvTrailer(header, head));
  error = Finish(fd, error, unfinished, name);
  if (error != 0) directory_->Remove(name);
  return error;
}

void KvDisk::PutOnto(const OpenKvFile& base, KvFileHeader* header, std::string* head) {
  std::string before;
  if (std::ssize(base.bases()) + 2 > kFilesMax || ReadHead(base, &before) != KvReject::kNone) return;
  const int64_t most = std::min(base.header().payload_bytes(), header->payload_bytes() - 1) / kTableChunk;
  int64_t same = 0;
  while (same < most && CrcOfChunk(before, same) == CrcOfChunk(*head, same)) ++same;
  int64_t in_files = base.header().own_bytes() + header->payload_bytes() - same * kTableChunk;
  for (const KvFileHeader& each : base.bases()) in_files += each.own_bytes();
  if (same == 0 || in_files > header->payload_bytes() / 2 * 3) return;
  header->base_turn = base.header().binding.turn;
  header->base_bytes = same * kTableChunk;
  head->replace(0, kKvHeaderBytes, EncodeKvHeader(*header));
}

// What was written under another name becomes the file, or, after an error, it goes.
int KvDisk::Finish(int fd, int error, const std::string& unfinished, const std::string& name) {
  if (error == 0) error = directory_->Sync(fd);
  // It is in the memory for sessions as well, and will hardly be read before it is not.
  directory_->Uncache(fd);
  directory_->Close(fd);
  if (error == 0) error = directory_->Rename(unfinished, name);
  if (error == 0) error = directory_->SyncNames();
  if (error == 0) return 0;
  directory_->Remove(unfinished);
  return error;
}

int KvDisk::Reseal(const std::string& name) {
  if (keys_ == nullptr) return 0;
  const int from = directory_->Open(name);
  if (from < 0) return from;
  KvReject reject = KvReject::kNone;
  const std::unique_ptr<SealedReader> reader = SealedReader::Open(*directory_, from, *keys_, &reject);
  int error = reader == nullptr && reject == KvReject::kIo ? -EIO : 0;
  // What is no file of these keys is refused when somebody asks for it.
  if (reader != nullptr && !reader->is_current()) {
    const std::string unfinished = name + ".tmp";
    directory_->Remove(unfinished);
    const int fd = directory_->Create(unfinished);
    error = fd;
    if (fd >= 0) {
      error = 0;
      SealedWriter writer(*directory_, fd, *keys_, reader->session(), reader->turn(), reader->text_bytes());
      std::string part;
      for (int64_t at = 0; error == 0 && at < reader->text_bytes(); at += std::ssize(part)) {
        part.resize(static_cast<size_t>(std::min<int64_t>(kKvChunkBytes, reader->text_bytes() - at)));
        if (reader->Read(part.data(), std::ssize(part), at) != KvReject::kNone) error = -EIO;
        if (error == 0) error = writer.Append(part);
      }
      error = Finish(fd, error, unfinished, name);
    }
  }
  directory_->Close(from);
  return error;
}

int KvDisk::Remove(const SessionName& session, uint64_t turn, bool sync) {
  const int error = directory_->Remove(KvFileName(session, turn));
  if (error < 0 && error != -ENOENT) return error;
  return sync ? directory_->SyncNames() : 0;
}

int64_t KvDisk::SizeOf(const std::string& name) {
  const int fd = directory_->Open(name);
  if (fd < 0) return fd;
  const int64_t bytes = directory_->Size(fd);
  directory_->Close(fd);
  return bytes;
}

std::unique_ptr<KvFileReader> KvFileReader::Open(LogDirectory& directory, const std::string& name,
                                                 const SessionKeys* keys, KvReject* reject) {
  *reject = KvReject::kNone;
  const int fd = directory.Open(name);
  if (fd == -ENOENT) return nullptr;
  *reject = KvReject::kIo;
  if (fd < 0) return nullptr;
  std::unique_ptr<KvFileReader> file(new KvFileReader(directory, fd));
  if (keys == nullptr) {
    file->bytes_ = directory.Size(fd);
    if (file->bytes_ >= 0) *reject = KvReject::kNone;
  } else {
    file->sealed_ = SealedReader::Open(directory, fd, *keys, reject);
    if (file->sealed_ != nullptr) file->bytes_ = file->sealed_->text_bytes();
  }
  return *reject == KvReject::kNone ? std::move(file) : nullptr;
}

KvReject KvFileReader::Read(char* to, int64_t bytes, int64_t offset) {
  if (offset < 0 || bytes > bytes_ - offset) return KvReject::kShort;
  if (sealed_ != nullptr) return sealed_->Read(to, bytes, offset);
  const int64_t got = ReadAll(directory_, fd_, to, static_cast<size_t>(bytes), offset);
  if (got < 0) return KvReject::kIo;
  return got == bytes ? KvReject::kNone : KvReject::kShort;
}

void KvFileReader::Forget() {
  if (sealed_ != nullptr) sealed_->Forget();
  directory_.Uncache(fd_);
}

// A file by itself: as DecodeKvHeader says, of whichever format.
std::unique_ptr<KvFileReader> KvDisk::OpenOne(const SessionName& session, uint64_t turn, KvFileHeader* header,
                                              KvReject* reject) {
  std::unique_ptr<KvFileReader> file = KvFileReader::Open(*directory_, KvFileName(session, turn), keys_.get(), reject);
  if (file == nullptr) return nullptr;
  std::string bytes(static_cast<size_t>(std::min<int64_t>(file->bytes(), kKvHeaderBytes)), '\0');
  *reject = file->Read(bytes.data(), std::ssize(bytes), 0);
  if (*reject != KvReject::kNone) return nullptr;
  *reject = KvReject::kKey;
  if (keys_ == nullptr && bytes.starts_with(kSealedMagic)) return nullptr;
  std::optional<KvFileHeader> decoded = DecodeKvHeader(bytes, reject);
  if (!decoded.has_value()) return nullptr;
  *reject = file->bytes() == decoded->file_bytes() ? KvReject::kNone : KvReject::kShort;
  *header = *std::move(decoded);
  return *reject == KvReject::kNone ? std::move(file) : nullptr;
}

std::optional<KvFileHeader> KvDisk::ReadHeader(const SessionName& session, uint64_t turn) {
  KvFileHeader header;
  KvReject reject = KvReject::kNone;
  return OpenOne(session, turn, &header, &reject) != nullptr ? std::optional(std::move(header)) : std::nullopt;
}

// Reads what the file says that one with this header goes on from.
KvReject KvDisk::ReadBaseHeader(const KvFileHeader& header, KvFileHeader* base) {
  KvReject reject = KvReject::kNone;
  if (OpenOne(header.binding.session, header.base_turn, base, &reject) == nullptr) {
    return reject == KvReject::kNone ? KvReject::kShort : reject;  // it is gone, and a part of the payload with it
  }
  if (base->payload_bytes() < header.base_bytes) return KvReject::kShort;
  if (base->binding.session != header.binding.session) return KvReject::kSession;
  if (base->binding.turn != header.base_turn) return KvReject::kTurn;
  return CheckKvFormat(base->format, format_);
}

std::shared_ptr<const OpenKvFile> KvDisk::Open(const SessionName& session, uint64_t turn, KvReject* reject) {
  KvFileHeader header;
  std::unique_ptr<KvFileReader> file = OpenOne(session, turn, &header, reject);
  if (file == nullptr) return nullptr;
  *reject = CheckKvFormat(header.format, format_);
  std::vector<KvFileHeader> bases;
  KvFileHeader newer = header;
  while (*reject == KvReject::kNone && newer.base_turn != 0) {
    KvFileHeader base;
    *reject = std::ssize(bases) + 1 < kFilesMax ? ReadBaseHeader(newer, &base) : KvReject::kShort;
    newer = base;
    bases.push_back(std::move(base));
  }
  if (*reject != KvReject::kNone) return nullptr;
  return std::make_shared<const OpenKvFile>(std::move(file), std::move(header), std::move(bases));
}

// What is sealed is read in its order, so that no piece is opened twice but the last.
KvReject KvDisk::ReadHead(const OpenKvFile& file, std::string* head) {
  const KvFileHeader& header = file.header_;
  head->resize(static_cast<size_t>(header.head_bytes()));
  std::string trailer(kKvTrailerBytes, '\0');
  const int64_t file_bytes = file.file_->bytes();
  KvReject reject = file.file_->Read(head->data(), std::ssize(*head), 0);
  if (reject == KvReject::kNone) {
    reject = file.file_->Read(trailer.data(), std::ssize(trailer), file_bytes - std::ssize(trailer));
  }
  // The header was looked at when the file was opened; its checksum is in the trailer's, so that it is the same one.
  return reject == KvReject::kNone ? CheckKvFile(header, *head, trailer, file_bytes) : reject;
}

KvReject KvDisk::ReadChunk(const OpenKvFile& file, std::string_view head, int64_t i, std::span<std::byte> out) {
  char* const to = reinterpret_cast<char*>(out.data());
  const int64_t at = ChunkRange(file.header_, i).first;
  const KvFileHeader* holder = &file.header_;
  for (auto next = file.bases_.begin(); at < holder->base_bytes; ++next) holder = &*next;
  KvFileReader* from = file.file_.get();
  KvReject reject = KvReject::kNone;
  if (holder != &file.header_) {
    const KvBinding& binding = holder->binding;
    if (file.base_ != nullptr && file.base_turn_ != binding.turn) file.base_->Forget();
    if (file.base_ == nullptr || file.base_turn_ != binding.turn) {
      file.base_.reset();
      file.base_ = KvFileReader::Open(*directory_, KvFileName(binding.session, binding.turn), keys_.get(), &reject);
      file.base_turn_ = binding.turn;
    }
    from = file.base_.get();
    if (from == nullptr) return reject == KvReject::kNone ? KvReject::kShort : reject;
  }
  reject = from->Read(to, std::ssize(out), holder->head_bytes() + at - holder->base_bytes);
  return reject == KvReject::kNone && !ChunkFits(head, i, TextOf(out)) ? KvReject::kDamaged : reject;
}

KvReject KvDisk::Read(const OpenKvFile& file, std::span<std::byte> out) {
  const KvFileHeader& header = file.header_;
  assert(std::ssize(out) == header.payload_bytes());
  std::string head;
  KvReject reject = ReadHead(file, &head);
  if (reject == KvReject::kIo || reject == KvReject::kShort) return reject;
  for (int64_t i = 0; reject == KvReject::kNone && i < header.chunks(); ++i) {
    const auto [begin, end] = ChunkRange(header, i);
    reject = ReadChunk(file, head, i, out.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  }
  if (reject == KvReject::kNone && !CheckPositions(header, out)) reject = KvReject::kPositions;
  if (file.base_ != nullptr) file.base_->Forget();
  file.base_.reset();
  file.file_->Forget();
  return reject;
}

std::unique_ptr<KvIncoming> KvDisk::Receive(const KvBinding& expected, const std::string& unfinished) {
  return std::make_unique<KvIncoming>(*directory_, keys_.get(), format_, expected, unfinished);
}

int KvDisk::Adopt(KvIncoming& incoming) {
  const KvBinding& binding = incoming.header().binding;
  const std::string name = KvFileName(binding.session, binding.turn);
  int error = directory_->Rename(incoming.unfinished(), name);
  if (error == 0) error = directory_->SyncNames();
  if (error != 0) directory_->Remove(name);
  if (error == 0) incoming.SetAdopted();
  return error;
}

}  // namespace hydrant
