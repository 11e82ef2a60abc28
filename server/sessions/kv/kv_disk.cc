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
  int32_t files = 1;
  for (const OpenKvFile* file = &base; file != nullptr; file = file->base()) ++files;
  std::string before;
  if (files > kFilesMax || ReadHead(base, &before) != KvReject::kNone) return;
  const int64_t most = std::min(base.header().payload_bytes(), header->payload_bytes() - 1) / kTableChunk;
  int64_t same = 0;
  while (same < most && CrcOfChunk(before, same) == CrcOfChunk(*head, same)) ++same;
  if (same == 0) return;
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

// The file that one with this header goes on from.
std::shared_ptr<const OpenKvFile> KvDisk::OpenBase(const KvFileHeader& header, int32_t files_max, KvReject* reject) {
  *reject = KvReject::kShort;
  if (files_max == 0) return nullptr;
  std::shared_ptr<const OpenKvFile> base = Open(header.binding.session, header.base_turn, files_max, reject);
  if (base == nullptr) {
    if (*reject == KvReject::kNone) *reject = KvReject::kShort;  // it is gone, and a part of the payload with it
    return nullptr;
  }
  const KvBinding& binding = base->header().binding;
  if (base->header().payload_bytes() < header.base_bytes) *reject = KvReject::kShort;
  if (binding.session != header.binding.session) *reject = KvReject::kSession;
  if (binding.turn != header.base_turn) *reject = KvReject::kTurn;
  return *reject == KvReject::kNone ? base : nullptr;
}

std::shared_ptr<const OpenKvFile> KvDisk::Open(const SessionName& session, uint64_t turn, int32_t files_max,
                                               KvReject* reject) {
  *reject = KvReject::kNone;
  const int fd = directory_->Open(KvFileName(session, turn));
  if (fd == -ENOENT) return nullptr;
  *reject = KvReject::kIo;
  if (fd < 0) return nullptr;
  std::string bytes(kKvHeaderBytes, '\0');
  int64_t size = -1;
  std::unique_ptr<SealedReader> sealed;
  if (keys_ != nullptr) {
    sealed = SealedReader::Open(*directory_, fd, *keys_, reject);
    if (sealed != nullptr) {
      bytes.resize(static_cast<size_t>(std::min<int64_t>(sealed->text_bytes(), kKvHeaderBytes)));
      *reject = sealed->Read(bytes.data(), std::ssize(bytes), 0);
      if (*reject == KvReject::kNone) size = sealed->text_bytes();
    }
  } else {
    const int64_t got = ReadAll(*directory_, fd, bytes.data(), bytes.size(), 0);
    size = got < 0 ? got : directory_->Size(fd);
    if (size >= 0) bytes.resize(static_cast<size_t>(got));
    if (size >= 0 && bytes.starts_with(kSealedMagic)) {
      *reject = KvReject::kKey;
      size = -1;
    }
  }
  std::optional<KvFileHeader> header;
  if (size >= 0) header = DecodeKvHeader(bytes, reject);
  if (header.has_value() && size != header->file_bytes()) *reject = KvReject::kShort;
  if (*reject == KvReject::kNone) *reject = CheckKvFormat(header->format, format_);
  std::shared_ptr<const OpenKvFile> base;
  if (*reject == KvReject::kNone && header->base_turn != 0) base = OpenBase(*header, files_max - 1, reject);
  if (*reject == KvReject::kNone) {
    return std::make_shared<const OpenKvFile>(*directory_, fd, *header, size, std::move(sealed), std::move(base));
  }
  directory_->Close(fd);
  return nullptr;
}

KvReject KvDisk::ReadAt(const OpenKvFile& file, char* to, int64_t bytes, int64_t offset) {
  if (file.sealed_ != nullptr) return file.sealed_->Read(to, bytes, offset);
  const int64_t got = ReadAll(*directory_, file.fd_, to, static_cast<size_t>(bytes), offset);
  if (got < 0) return KvReject::kIo;
  return got == bytes ? KvReject::kNone : KvReject::kShort;
}

// What is sealed is read in its order, so that no piece is opened twice but the last.
KvReject KvDisk::ReadHead(const OpenKvFile& file, std::string* head) {
  const KvFileHeader& header = file.header_;
  head->resize(static_cast<size_t>(header.head_bytes()));
  std::string trailer(kKvTrailerBytes, '\0');
  KvReject reject = ReadAt(file, head->data(), std::ssize(*head), 0);
  if (reject == KvReject::kNone) {
    reject = ReadAt(file, trailer.data(), std::ssize(trailer), file.file_bytes_ - std::ssize(trailer));
  }
  // The header was looked at when the file was opened; its checksum is in the trailer's, so that it is the same one.
  return reject == KvReject::kNone ? CheckKvFile(header, *head, trailer, file.file_bytes_) : reject;
}

KvReject KvDisk::ReadChunk(const OpenKvFile& file, std::string_view head, int64_t i, std::span<std::byte> out) {
  char* const to = reinterpret_cast<char*>(out.data());
  const int64_t at = ChunkRange(file.header_, i).first;
  const OpenKvFile* holder = &file;
  while (at < holder->header_.base_bytes) holder = holder->base_.get();
  const KvReject reject =
      ReadAt(*holder, to, std::ssize(out), holder->header_.head_bytes() + at - holder->header_.base_bytes);
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
  for (const OpenKvFile* each = &file; each != nullptr; each = each->base()) directory_->Uncache(each->fd_);
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
