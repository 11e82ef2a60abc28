// RotatingKeys are the keys that open one thing, the admin listener or /metrics: one that a flag gave, or up to two in a file, the
// old one and the new one while a rotation lasts. A reload reads the file again.
//
// Thread: any.
//
// Invariant: what was read is never seen half in force, and a file that is wrong changes nothing.
#ifndef HYDRANT_SERVER_TENANTS_ROTATING_KEYS_H_
#define HYDRANT_SERVER_TENANTS_ROTATING_KEYS_H_

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tenants/key_ring.h"

namespace hydrant {

// What is wrong with a key, so that no "Authorization: Bearer KEY" of a client's is it; empty: nothing. Never holds any of it.
std::string WrongKey(std::string_view key);

// Keys, one a line, one or two of them; blank lines mean nothing. Errors: FAILED_PRECONDITION, "FILE: …" or "FILE:LINE: …", for
// anything else, and for a key that no header field can carry. A message never holds any of the text.
absl::StatusOr<std::vector<KeyDigest>> ParseKeys(std::string_view text, const std::string& file);

// The same of a file. Errors: ReadSecretFile's besides.
absl::StatusOr<std::vector<KeyDigest>> ReadKeyFile(const std::string& path);
// Whether all of them can be read; "" is none. Errors: the first of ReadKeyFile's.
absl::Status CheckKeyFiles(const std::vector<std::string>& paths);

class RotatingKeys {
 public:
  // A key that stays; empty: there is none.
  static std::shared_ptr<RotatingKeys> Of(std::string_view key);
  // Keys that a file has, one or two. Errors: ReadKeyFile's.
  static absl::StatusOr<std::shared_ptr<RotatingKeys>> FromFile(const std::string& path);

  RotatingKeys(const RotatingKeys&) = delete;
  RotatingKeys& operator=(const RotatingKeys&) = delete;

  bool Has(std::string_view key) const;
  size_t size() const;
  bool has_file() const { return !path_.empty(); }

  // A reload in two halves, so that several files come into force together: what the file says now, and putting it into force. Read
  // without a file gives nothing, and so does Put of it.
  absl::StatusOr<std::vector<KeyDigest>> Read() const;
  void Put(const std::vector<KeyDigest>& keys);

 private:
  explicit RotatingKeys(std::string path) : path_(std::move(path)) {}

  const std::string path_;  // empty: a key that stays
  mutable std::mutex mutex_;
  KeyRing keys_;  // guarded by mutex_
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_TENANTS_ROTATING_KEYS_H_
