// MappedFile is a regular file mapped for reading; WeightDirectory opens files of one directory without ever leaving it.
//
// Thread: any. Reading bytes() is safe from several threads at once.
//
// While at least one MappedFile lives, a SIGBUS inside a mapping (somebody cut the file short) ends the process with exit
// code 78 and one line that names the file: the file is unusable and nothing has been served yet, because mappings are
// dropped once weights are packed. Rewritten contents cannot do harm: every size and offset is copied out when it is checked.
#ifndef HYDRANT_MODEL_FILES_MAPPED_FILE_H_
#define HYDRANT_MODEL_FILES_MAPPED_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace hydrant {

inline constexpr int kExitBadModelFile = 78;  // EX_CONFIG of sysexits.h

class MappedFile {
 public:
  // A file the operator named: a symbolic link is followed.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return bytes_; }
  const std::string& name() const { return name_; }     // without its directories
  int64_t modified_ns() const { return modified_ns_; }  // since 1970, as the file system had it when it was opened

 private:
  friend class WeightDirectory;
  MappedFile(std::string name, std::string_view bytes, int region);
  static absl::StatusOr<std::unique_ptr<MappedFile>> Map(int fd, std::string name);

  std::string name_;
  std::string_view bytes_;
  int64_t modified_ns_ = 0;
  int region_;  // its entry in the SIGBUS table; -1 for an empty file
};

// Lets the system begin to read `bytes` of a MappedFile from the disk; does nothing to memory of another kind.
void ReadAhead(std::string_view bytes);

// Lets the system take back the memory that holds `bytes` of a MappedFile; does nothing to memory of another kind. The file is
// read again for whoever reads them again.
void ReturnMemory(std::string_view bytes);

class WeightDirectory {
 public:
  static absl::StatusOr<WeightDirectory> Open(const std::string& path);

  WeightDirectory(WeightDirectory&& other) noexcept;
  ~WeightDirectory();

  // Not empty, no '/', not "." or "..": a name that cannot lead out of a directory.
  static bool IsPlainName(std::string_view name);

  // `name` must be a plain name. Symbolic links, directories, pipes and devices are refused, but for a link of a hub's cache to
  // a file in `../../blobs`.
  absl::StatusOr<std::unique_ptr<MappedFile>> Map(std::string_view name) const;
  // The whole file as a string. NotFound when there is none, an error when it is larger than `bytes_max`.
  absl::StatusOr<std::string> Read(std::string_view name, size_t bytes_max) const;
  bool Contains(std::string_view name) const;
  // A directory in this one. `name` must be a plain name. NotFound when there is none.
  absl::StatusOr<WeightDirectory> Inner(std::string_view name) const;

 private:
  explicit WeightDirectory(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_MAPPED_FILE_H_
