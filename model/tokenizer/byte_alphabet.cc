#include "model/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "model/text/utf8.h"

namespace hydrant {
namespace {

constexpr uint32_t kAlphabetEnd = 0x144;

constexpr bool SpellsItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

// By code point: the byte it spells, or -1.
constexpr std::array<int16_t, kAlphabetEnd> MakeAlphabet() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  for (auto& byte : bytes) byte = -1;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) bytes[SpellsItself(byte) ? byte : next++] = static_cast<int16_t>(byte);
  return bytes;
}
constexpr auto kAlphabet = MakeAlphabet();

}  // namespace

bool AppendSpelledBytes(std::string_view piece, std::string& out) {
  const size_t before = out.size();
  for (std::string_view rest = piece; !rest.empty();) {
    const Utf8Unit unit = NextUtf8Unit(rest);
    if (unit.kind != Utf8Kind::kCharacter || unit.code_point >= kAlphabetEnd || kAlphabet[unit.code_point] < 0) {
      out.resize(before);
      out.append(piece);
      return false;
    }
    out += static_cast<char>(kAlphabet[unit.code_point]);
    rest.remove_prefix(unit.bytes);
  }
  return true;
}

}  // namespace hydrant
