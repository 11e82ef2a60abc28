#include "server/sessions/journal/session_keys.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/process/secret_file.h"

namespace hydrant {
namespace {

constexpr int64_t kFileBytesMax = 1 << 16;
constexpr size_t kKeyDigits = 64;
constexpr size_t kKeysMax = 2;
constexpr std::string_view kPurpose = "hydrant session 1";

template <typename Bytes>
std::string_view View(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string InfoOf(std::string_view what, std::string_view whose) {
  return std::string(kPurpose).append(1, '\0').append(what).append(1, '\0').append(whose);
}

bool IsHex(std::string_view text) { return text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos; }

}  // namespace

absl::StatusOr<std::shared_ptr<const SessionKeys>> SessionKeys::Load(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSecretFile(path, kFileBytesMax);
  if (!text.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("--session-key-file: ", std::string(text.status().message())));
  }
  return Parse(*text, path);
}

absl::StatusOr<std::shared_ptr<const SessionKeys>> SessionKeys::Parse(std::string_view text, const std::string& path) {
  const auto wrong = [&path](const auto&... what) {
    return absl::FailedPreconditionError(absl::StrCat("--session-key-file: ", path, ": ", what...));
  };
  std::shared_ptr<SessionKeys> keys(new SessionKeys());
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (line.size() != kKeyDigits || !IsHex(line)) {
      return wrong("line ", number, ": a key is ", kKeyDigits, " hexadecimal digits (openssl rand -hex 32)");
    }
    std::string key = absl::HexStringToBytes(std::string(line));
    const SealKey check = DeriveKey(key, "", InfoOf("id", ""));
    Id id{};
    std::copy_n(check.begin(), id.size(), id.begin());
    if (std::find(keys->ids_.begin(), keys->ids_.end(), id) != keys->ids_.end()) {
      return wrong("line ", number, ": the same key twice");
    }
    if (keys->keys_.size() == kKeysMax) return wrong("line ", number, ": more than two keys");
    keys->keys_.push_back(std::move(key));
    keys->ids_.push_back(id);
  }
  if (keys->keys_.empty()) return wrong("there is no key in it");
  return keys;
}

std::string SessionKeys::NameOf(const Id& id) { return absl::BytesToHexString(std::string(View(id))); }

SessionKeys::Message SessionKeys::Begin(std::string_view what, std::string_view whose) const {
  Message message;
  message.id = ids_.front();
  FillRandom(message.salt);
  message.key = DeriveKey(keys_.front(), View(message.salt), InfoOf(what, whose));
  return message;
}

std::optional<SealKey> SessionKeys::KeyOf(const Id& id, const Salt& salt, std::string_view what,
                                          std::string_view whose) const {
  const auto found = std::find(ids_.begin(), ids_.end(), id);
  if (found == ids_.end()) return std::nullopt;
  return DeriveKey(keys_[static_cast<size_t>(found - ids_.begin())], View(salt), InfoOf(what, whose));
}

std::string SessionKeys::SealText(std::string_view what, std::string_view whose, std::string_view beside,
                                  std::string_view text) const {
  const Message message = Begin(what, whose);
  std::string out(text.size() + kOverhead, '\0');
  char* const at = out.data();
  std::copy(message.id.begin(), message.id.end(), at);
  std::copy(message.salt.begin(), message.salt.end(), at + sizeof(Id));
  Seal(message.key, 0, beside, text, at + sizeof(Id) + sizeof(Salt));
  return out;
}

std::optional<std::string> SessionKeys::OpenText(std::string_view what, std::string_view whose, std::string_view beside,
                                                 std::string_view message) const {
  if (message.size() < kOverhead) return std::nullopt;
  Id id{};
  Salt salt{};
  std::copy_n(message.begin(), id.size(), id.begin());
  std::copy_n(message.begin() + sizeof(Id), salt.size(), salt.begin());
  const std::optional<SealKey> key = KeyOf(id, salt, what, whose);
  if (!key.has_value()) return std::nullopt;
  std::string text(message.size() - kOverhead, '\0');
  if (!Unseal(*key, 0, beside, message.substr(sizeof(Id) + sizeof(Salt)), text.data())) return std::nullopt;
  return text;
}

}  // namespace hydrant
