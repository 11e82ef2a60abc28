// KeyRing knows API keys by their SHA-256 and says whose they are. The keys themselves are kept nowhere.
//
// Thread: any once it is filled.
//
// The time a look-up takes depends on the length of what was presented and on the number of keys, never on which key it
// is or how much of it was right: every digest is compared, to its end.
#ifndef HYDRANT_SERVER_TENANTS_KEY_RING_H_
#define HYDRANT_SERVER_TENANTS_KEY_RING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace hydrant {

using KeyDigest = std::array<uint8_t, 32>;

KeyDigest DigestOfKey(std::string_view key);
// 64 hexadecimal digits of either case; nullopt for anything else.
std::optional<KeyDigest> KeyDigestFromHex(std::string_view text);

// What a field "Authorization: Bearer KEY" presents; nullopt when it has another form.
std::optional<std::string_view> BearerToken(std::string_view authorization);

class KeyRing {
 public:
  // False: the key is there already. REQUIRES: owner >= 0.
  bool Add(const KeyDigest& key, int32_t owner);
  // The owner of `key`, or -1.
  int32_t OwnerOf(std::string_view key) const;
  size_t size() const { return keys_.size(); }

 private:
  struct Entry {
    KeyDigest digest;
    int32_t owner;
  };
  std::vector<Entry> keys_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_TENANTS_KEY_RING_H_
