#include "server/shared_limits/store_address.h"

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

constexpr char kForm[] = "must be redis://[USER@]HOST[:PORT][/DATABASE] or unix:///PATH[?db=DATABASE]";
constexpr int32_t kDatabaseMax = 1'000'000;  // a store has 16 unless it was told otherwise
constexpr size_t kHostBytesMax = 255;

absl::Status Wrong(std::string_view what = kForm) { return absl::InvalidArgumentError(std::string(what)); }

// All of `text`, in [0, most].
std::optional<int32_t> ParseNumber(std::string_view text, int32_t most) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most) return std::nullopt;
  return value;
}

bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

absl::StatusOr<StoreAddress> ParseUnix(std::string_view rest) {
  StoreAddress address;
  const size_t query = rest.find('?');
  if (query != std::string_view::npos) {
    std::string_view option = rest.substr(query + 1);
    if (!TakePrefix(&option, "db=")) return Wrong();
    const std::optional<int32_t> database = ParseNumber(option, kDatabaseMax);
    if (!database.has_value()) return Wrong("the database must be a number");
    address.database = *database;
    rest = rest.substr(0, query);
  }
  if (!rest.starts_with('/')) return Wrong("the path of a Unix socket must be absolute: unix:///run/redis/redis.sock");
  if (rest.size() >= sizeof(sockaddr_un::sun_path)) return Wrong("the path of a Unix socket is too long");
  address.path = std::string(rest);
  return address;
}

}  // namespace

std::string StoreAddress::Text() const {
  if (host.empty()) return absl::StrCat("unix://", path, "?db=", database);
  const bool colons = host.find(':') != std::string::npos;
  return absl::StrCat("redis://", user, user.empty() ? "" : "@", colons ? "[" : "", host, colons ? "]" : "", ":", port,
                      "/", database);
}

absl::StatusOr<StoreAddress> ParseStoreAddress(std::string_view url) {
  const bool plain = std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!plain) return Wrong();
  std::string_view rest = url;
  if (rest.starts_with("rediss://")) {
    return Wrong("TLS (rediss://) is not supported: give a Unix socket, or the local end of a tunnel");
  }
  if (TakePrefix(&rest, "unix://")) return ParseUnix(rest);
  if (!TakePrefix(&rest, "redis://")) return Wrong();
  // What other clients read out of these may be a password, and what is taken for part of a name is in the log.
  if (rest.find_first_of("?#") != std::string_view::npos) return Wrong();
  StoreAddress address;
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    const std::string_view user = rest.substr(0, at);
    if (user.find(':') != std::string_view::npos) {
      return Wrong("a password does not go on the command line, where others see it: --shared-limits-password-file");
    }
    if (user.find_first_of("@/%") != std::string_view::npos) return Wrong();
    address.user = std::string(user);
    rest.remove_prefix(at + 1);
  }
  if (const size_t slash = rest.find('/'); slash != std::string_view::npos) {
    const std::string_view text = rest.substr(slash + 1);
    const std::optional<int32_t> database = text.empty() ? 0 : ParseNumber(text, kDatabaseMax);
    if (!database.has_value()) return Wrong("the database must be a number");
    address.database = *database;
    rest = rest.substr(0, slash);
  }
  const bool bracketed = rest.starts_with('[');
  const size_t host_end = bracketed ? rest.find(']') : rest.find(':');
  if (bracketed && host_end == std::string_view::npos) return Wrong();
  address.host = std::string(bracketed ? rest.substr(1, host_end - 1) : rest.substr(0, host_end));
  std::string_view port = host_end == std::string_view::npos ? "" : rest.substr(host_end + (bracketed ? 1 : 0));
  if (TakePrefix(&port, ":")) {
    const std::optional<int32_t> number = ParseNumber(port, 65535);
    if (!number.has_value() || *number == 0) return Wrong("the port must be a number from 1 to 65535");
    address.port = static_cast<uint16_t>(*number);
  } else if (!port.empty()) {
    return Wrong();
  }
  if (address.host.empty() || address.host.size() > kHostBytesMax) return Wrong();
  return address;
}

}  // namespace hydrant
