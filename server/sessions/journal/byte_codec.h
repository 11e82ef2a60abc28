// Numbers and strings as bytes of a file: little endian, whole numbers of any size as LEB128.
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_SESSIONS_JOURNAL_BYTE_CODEC_H_
#define HYDRANT_SERVER_SESSIONS_JOURNAL_BYTE_CODEC_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace hydrant {

template <typename Integer>
void PutFixed(Integer value, std::string* out) {
  auto bits = static_cast<std::make_unsigned_t<Integer>>(value);
  for (size_t i = 0; i < sizeof(Integer); ++i) {
    out->push_back(static_cast<char>(bits & 0xff));
    bits = static_cast<std::make_unsigned_t<Integer>>(static_cast<uint64_t>(bits) >> 8);
  }
}

inline void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>((value & 0x7f) | 0x80));
  out->push_back(static_cast<char>(value));
}

inline void PutString(std::string_view text, std::string* out) {
  PutVarint(text.size(), out);
  out->append(text);
}

template <size_t kSize>
void PutArray(const std::array<uint8_t, kSize>& bytes, std::string* out) {
  out->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Reads from the front of bytes that nobody vouches for. Once something was not there, everything further is zero and `ok` is
// false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}

  template <typename Integer>
  Integer Fixed() {
    uint64_t bits = 0;
    const std::string_view from = Bytes(sizeof(Integer));
    for (size_t i = 0; i < from.size(); ++i) bits |= uint64_t{static_cast<uint8_t>(from[i])} << (8 * i);
    return static_cast<Integer>(bits);
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = Fixed<uint8_t>();
      value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    ok_ = false;
    return 0;
  }
  // A number that must be at most `most`.
  uint64_t Varint(uint64_t most) {
    const uint64_t value = Varint();
    if (value > most) ok_ = false;
    return ok_ ? value : 0;
  }
  template <size_t kSize>
  std::array<uint8_t, kSize> Array() {
    std::array<uint8_t, kSize> bytes{};
    const std::string_view from = Bytes(kSize);
    std::copy(from.begin(), from.end(), bytes.begin());
    return bytes;
  }
  std::string_view String() { return Bytes(Varint(left_.size())); }
  std::string_view Bytes(uint64_t count) {
    if (!ok_ || count > left_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return bytes;
  }

  bool ok() const { return ok_; }
  std::string_view left() const { return left_; }
  bool done() const { return ok_ && left_.empty(); }

 private:
  std::string_view left_;
  bool ok_ = true;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_JOURNAL_BYTE_CODEC_H_
