// The few things HTTP asks of ASCII text, on std::string_view. (Debian's Abseil has a string_view type of its own,
// which std::string_view does not turn into.)
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_PROCESS_ASCII_TEXT_H_
#define HYDRANT_SERVER_PROCESS_ASCII_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace hydrant {

inline constexpr char LowerCase(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
inline constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
inline constexpr bool IsLetter(char c) { return LowerCase(c) >= 'a' && LowerCase(c) <= 'z'; }
// The value of a hexadecimal digit; -1 for anything else.
inline constexpr int HexValue(char c) {
  if (IsDigit(c)) return c - '0';
  const char lower = LowerCase(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

inline std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = LowerCase(c);
  return lower;
}

inline bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (LowerCase(a[i]) != LowerCase(b[i])) return false;
  }
  return true;
}

inline bool StartsWithIgnoreCase(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && EqualsIgnoreCase(text.substr(0, prefix.size()), prefix);
}

// Without spaces and tabs at both ends.
inline std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Trimmed pieces between commas, empty ones left out.
inline std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const std::string_view piece = Trim(text.substr(0, text.find(',')));
    if (!piece.empty()) pieces.emplace_back(piece);
    const size_t comma = text.find(',');
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return pieces;
}

// "%2F" -> "/". What is not an escape stays as it is.
inline std::string PercentDecode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && HexValue(text[i + 1]) >= 0 && HexValue(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(HexValue(text[i + 1]) * 16 + HexValue(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_ASCII_TEXT_H_
