// ApiKey checks the Authorization field. Only the key's SHA-256 is kept.
//
// Thread: any (immutable).
#ifndef HYDRANT_SERVER_API_KEY_H_
#define HYDRANT_SERVER_API_KEY_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hydrant {

class ApiKey {
 public:
  // No key: everybody may enter.
  ApiKey() = default;
  explicit ApiKey(std::string_view key);

  bool required() const { return digest_.has_value(); }
  // `authorization` is the field's value, empty when absent: "Bearer KEY". The time taken says nothing about the key.
  bool Admits(std::string_view authorization) const;

 private:
  std::optional<std::array<uint8_t, 32>> digest_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_API_KEY_H_
