#include "model/jinja/core/text.h"

#include <algorithm>
#include <cassert>

#include "model/text/utf8.h"

namespace hydrant::jinja {
namespace {

// The first range that ends after `offset`.
auto FirstBehind(const std::vector<ByteRange>& ranges, size_t offset) {
  return std::upper_bound(ranges.begin(), ranges.end(), offset,
                          [](size_t at, const ByteRange& range) { return at < range.end; });
}

// The unit at the end of `text`. What is no whole character there counts as one invalid byte. REQUIRES: text is not empty.
Utf8Unit LastUtf8Unit(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  const Utf8Unit unit = NextUtf8Unit(text.substr(begin));
  return begin + unit.bytes == text.size() ? unit : Utf8Unit{.bytes = 1};
}

}  // namespace

Text::Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (origin == Origin::kClient) AddClient(0, bytes_.size());
}

Origin Text::OriginAt(size_t offset) const {
  assert(offset < size());
  const auto range = FirstBehind(client_, offset);
  return range != client_.end() && range->begin <= offset ? Origin::kClient : Origin::kTemplate;
}

void Text::AddClient(size_t begin, size_t end) {
  if (begin == end) return;
  if (!client_.empty() && client_.back().end == begin) {
    client_.back().end = end;
  } else {
    client_.push_back({begin, end});
  }
}

void Text::Append(std::string_view bytes, Origin origin) {
  if (origin == Origin::kClient) AddClient(size(), size() + bytes.size());
  bytes_.append(bytes);
}

void Text::AppendSlice(const Text& text, size_t begin, size_t end) {
  assert(begin <= end && end <= text.size() && &text != this);
  const size_t base = size();
  for (auto range = FirstBehind(text.client_, begin); range != text.client_.end() && range->begin < end; ++range) {
    AddClient(base + std::max(range->begin, begin) - begin, base + std::min(range->end, end) - begin);
  }
  bytes_.append(text.bytes_, begin, end - begin);
}

Text Text::Slice(size_t begin, size_t end) const {
  Text slice;
  slice.AppendSlice(*this, begin, end);
  return slice;
}

bool IsSpace(uint32_t code_point) {
  return (code_point >= 0x09 && code_point <= 0x0D) || (code_point >= 0x1C && code_point <= 0x20) ||
         code_point == 0x85 || code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 || code_point == 0x2029 ||
         code_point == 0x202F || code_point == 0x205F || code_point == 0x3000;
}

ByteRange TrimSpace(std::string_view text, bool left, bool right) {
  ByteRange kept = {0, text.size()};
  while (left && kept.begin < kept.end) {
    const Utf8Unit unit = NextUtf8Unit(text.substr(kept.begin));
    if (!IsSpace(unit.code_point)) break;
    kept.begin += unit.bytes;
  }
  while (right && kept.begin < kept.end) {
    const Utf8Unit unit = LastUtf8Unit(text.substr(kept.begin, kept.end - kept.begin));
    if (!IsSpace(unit.code_point)) break;
    kept.end -= unit.bytes;
  }
  return kept;
}

}  // namespace hydrant::jinja
