// SessionKeys seals what a session directory holds, with the keys of --session-key-file.
//
//   key of a message = HKDF-SHA256(key of the file, salt, info)
//     salt  32 random bytes, new for each message
//     info  "hydrant session 1", what it is, and whose: the session's name, which is made of tenant and id
//   message = {key id 8, salt 32, text sealed by AES-256-GCM under that key, tag 16}
//
// So no key is ever used for two messages, whatever starts, ends, is restored from a backup or copied elsewhere, and the nonce is the
// number of a piece in its message. What was sealed for a session opens for no other one, of no other tenant; nor as anything else, nor
// beside another header.
//
// Thread: any (immutable).
#ifndef HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_KEYS_H_
#define HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_KEYS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/process/aead.h"

namespace hydrant {

class SessionKeys {
 public:
  using Id = std::array<uint8_t, 8>;  // derived from the key; says nothing of it
  using Salt = std::array<uint8_t, 32>;
  // Bytes that a message has more than its text.
  static constexpr size_t kOverhead = sizeof(Id) + sizeof(Salt) + kSealTagBytes;

  // One key or two, 64 hexadecimal digits in a line of its own each; lines that begin with '#' are none. The first one seals, both open.
  // Errors: FAILED_PRECONDITION, which names the file and the line; ReadSecretFile's.
  static absl::StatusOr<std::shared_ptr<const SessionKeys>> Load(const std::string& path);
  static absl::StatusOr<std::shared_ptr<const SessionKeys>> Parse(std::string_view text, const std::string& path);

  // The one that seals comes first.
  const std::vector<Id>& ids() const { return ids_; }
  static std::string NameOf(const Id& id);  // 16 hexadecimal digits

  // The parts of a message that is sealed in pieces.
  struct Message {
    Id id{};
    Salt salt{};
    SealKey key{};
  };
  // A new one. `what` it is, and `whose`.
  Message Begin(std::string_view what, std::string_view whose) const;
  // One that has this id and salt. nullopt: its key is not here.
  std::optional<SealKey> KeyOf(const Id& id, const Salt& salt, std::string_view what, std::string_view whose) const;

  // A message by itself. `beside` has to be the same when it is opened.
  std::string SealText(std::string_view what, std::string_view whose, std::string_view beside,
                       std::string_view text) const;
  // nullopt: it was not sealed with these, or is not what was sealed.
  std::optional<std::string> OpenText(std::string_view what, std::string_view whose, std::string_view beside,
                                      std::string_view message) const;

 private:
  SessionKeys() = default;

  std::vector<std::string> keys_;  // 32 bytes each
  std::vector<Id> ids_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_KEYS_H_
