// Text is a string that knows which of its bytes came from the client: every operation of a template on strings is made of
// the few here, so that the origin of a character survives slicing, joining, replacing and printing.
//
// Thread: any; a Text is not shared while it is built.
//
// Invariants:
//   1 client() is ascending and disjoint, touching ranges are merged, no range is empty, none reaches past bytes().
#ifndef HYDRANT_MODEL_JINJA_CORE_TEXT_H_
#define HYDRANT_MODEL_JINJA_CORE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/byte_range.h"

namespace hydrant::jinja {

enum class Origin : uint8_t { kTemplate, kClient };

inline Origin Either(Origin a, Origin b) { return a == Origin::kClient ? a : b; }

class Text {
 public:
  Text() = default;
  Text(std::string bytes, Origin origin);

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::vector<ByteRange>& client() const { return client_; }
  std::string TakeBytes() && { return std::move(bytes_); }

  // Where the byte came from. REQUIRES: offset < size().
  Origin OriginAt(size_t offset) const;
  // kClient if any byte came from the client.
  Origin origin() const { return client_.empty() ? Origin::kTemplate : Origin::kClient; }

  void Append(std::string_view bytes, Origin origin);
  void Append(const Text& text) { AppendSlice(text, 0, text.size()); }
  // REQUIRES: begin <= end <= text.size(); `text` is another Text.
  void AppendSlice(const Text& text, size_t begin, size_t end);
  Text Slice(size_t begin, size_t end) const;

  // Bytes that it occupies, its ranges included.
  size_t footprint_bytes() const { return sizeof(Text) + bytes_.size() + client_.size() * sizeof(ByteRange); }

 private:
  void AddClient(size_t begin, size_t end);

  std::string bytes_;
  std::vector<ByteRange> client_;
};

// What Python's str.isspace, strip and split take for white space.
bool IsSpace(uint32_t code_point);
// `text` without white space at its begin and end.
ByteRange TrimSpace(std::string_view text, bool left, bool right);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_TEXT_H_
