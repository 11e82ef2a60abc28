#include "server/http/trusted_proxies.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "server/process/ascii_text.h"

namespace hydrant {
namespace {

constexpr int32_t kBitsOfV6 = 128;
constexpr int32_t kMappedBits = 96;  // before an IPv4 address that is mapped into IPv6

// The place of the first `end` in `text`, or its size. `quotes`: one inside a quotation is none. *open: a quotation does not end.
size_t Find(std::string_view text, char end, bool quotes, bool* open) {
  *open = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quotes && *open && c == '\\') {
      ++at;
    } else if (quotes && c == '"') {
      *open = !*open;
    } else if (c == end && !*open) {
      return at;
    }
  }
  return text.size();
}

// The piece of `text` before the first `end`; takes both off.
std::string_view Next(std::string_view* text, char end, bool quotes) {
  bool open = false;
  const size_t at = Find(*text, end, quotes, &open);
  const std::string_view piece = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return Trim(piece);
}

// Whether every quotation ends. One that does not is the client's, and must not swallow what a proxy appended.
bool QuotesEnd(std::string_view text) {
  bool open = false;
  (void)Find(text, '\0', /*quotes=*/true, &open);
  return !open;
}

// The value of for= in an element of Forwarded, without quotes; empty where there is none or more than one.
std::string_view ForOf(std::string_view element) {
  std::string_view found;
  int count = 0;
  while (!element.empty()) {
    std::string_view pair = Next(&element, ';', /*quotes=*/true);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || !EqualsIgnoreCase(Trim(pair.substr(0, equals)), "for")) continue;
    found = Trim(pair.substr(equals + 1));
    ++count;
  }
  if (found.size() >= 2 && found.front() == '"' && found.back() == '"') found = found.substr(1, found.size() - 2);
  return count == 1 ? found : std::string_view();
}

// "1.2.3.4:56" and "[::1]:56" without the port, "[::1]" without brackets.
std::string_view WithoutPort(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    return end == std::string_view::npos ? std::string_view() : text.substr(1, end - 1);
  }
  const size_t colon = text.find(':');
  const bool one = colon != std::string_view::npos && text.find(':', colon + 1) == std::string_view::npos;
  return one ? text.substr(0, colon) : text;
}

// What the field says, the farthest first.
std::vector<std::string_view> Chain(const HttpHead& head, TrustedProxies::Field field) {
  const bool forwarded = field == TrustedProxies::Field::kForwarded;
  std::vector<std::string_view> chain;
  for (const HttpField& one : head.fields) {
    if (one.name != (forwarded ? "forwarded" : "x-forwarded-for")) continue;
    std::string_view rest = one.value;
    const bool quotes = forwarded && QuotesEnd(rest);
    while (!rest.empty()) {
      const std::string_view piece = Next(&rest, ',', quotes);
      chain.push_back(WithoutPort(forwarded ? ForOf(piece) : piece));
    }
  }
  return chain;
}

}  // namespace

std::optional<TrustedProxies::Bits> TrustedProxies::BitsOf(std::string_view address) {
  const std::string text(address);
  Bits bits{};
  if (inet_pton(AF_INET6, text.c_str(), bits.data()) == 1) return bits;
  bits.fill(0);
  bits[10] = bits[11] = 0xff;
  if (inet_pton(AF_INET, text.c_str(), bits.data() + kMappedBits / 8) == 1) return bits;
  return std::nullopt;
}

std::optional<TrustedProxies::Network> TrustedProxies::NetworkOf(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string_view address = text.substr(0, slash);
  const std::optional<Bits> bits = BitsOf(address);
  if (!bits.has_value()) return std::nullopt;
  Network network{*bits, kBitsOfV6};
  if (slash == std::string_view::npos) return network;
  const int32_t before = address.find(':') == std::string_view::npos ? kMappedBits : 0;
  const std::string_view length = text.substr(slash + 1);
  int32_t value = 0;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), value);
  if (error != std::errc() || end != length.data() + length.size()) return std::nullopt;
  if (value < 0 || value > kBitsOfV6 - before) return std::nullopt;
  network.length = before + value;
  return network;
}

std::optional<TrustedProxies> TrustedProxies::Parse(const std::vector<std::string>& list, Field field,
                                                    std::string* wrong) {
  TrustedProxies proxies;
  proxies.field_ = field;
  for (const std::string& text : list) {
    const std::optional<Network> network = NetworkOf(text);
    if (!network.has_value()) {
      *wrong = text;
      return std::nullopt;
    }
    proxies.networks_.push_back(*network);
  }
  return proxies;
}

bool TrustedProxies::Trusts(std::string_view address) const {
  if (networks_.empty()) return false;
  const std::optional<Bits> bits = BitsOf(address);
  if (!bits.has_value()) return false;
  return std::any_of(networks_.begin(), networks_.end(), [&](const Network& network) {
    const auto whole = static_cast<size_t>(network.length / 8);
    if (!std::equal(bits->begin(), bits->begin() + static_cast<std::ptrdiff_t>(whole), network.bits.begin()))
      return false;
    const int32_t rest = network.length % 8;
    if (rest == 0) return true;
    const auto mask = static_cast<uint8_t>(0xff00 >> rest);
    return ((*bits)[whole] & mask) == (network.bits[whole] & mask);
  });
}

std::string TrustedProxies::ClientOf(const std::string& peer, const HttpHead& head) const {
  if (!Trusts(peer)) return peer;
  std::string nearest = peer;
  std::vector<std::string_view> chain = Chain(head, field_);
  while (!chain.empty() && Trusts(nearest)) {
    const std::optional<Bits> bits = BitsOf(chain.back());
    if (!bits.has_value()) break;
    chain.pop_back();
    const auto* v6 = reinterpret_cast<const in6_addr*>(bits->data());
    char text[INET6_ADDRSTRLEN];
    const bool v4 = IN6_IS_ADDR_V4MAPPED(v6);
    // One text for an address, however the proxy wrote it.
    if (v4 ? inet_ntop(AF_INET, bits->data() + kMappedBits / 8, text, sizeof(text)) == nullptr
           : inet_ntop(AF_INET6, v6, text, sizeof(text)) == nullptr) {
      break;
    }
    nearest = text;
  }
  return nearest;
}

}  // namespace hydrant
