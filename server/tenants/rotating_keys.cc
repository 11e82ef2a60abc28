#include "server/tenants/rotating_keys.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/process/ascii_text.h"
#include "server/process/secret_file.h"

namespace hydrant {
namespace {

constexpr int64_t kKeyFileBytesMax = 8 << 10;
constexpr size_t kKeysAtOnce = 2;      // the old one and the new one
constexpr size_t kKeyBytesMax = 1024;  // far below what a header may have

}  // namespace

std::string WrongKey(std::string_view key) {
  if (key.size() > kKeyBytesMax) return absl::StrCat("a key has at most ", kKeyBytesMax, " bytes");
  const bool visible = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return visible ? "" : "a key has visible ASCII characters alone, and no spaces";
}

absl::StatusOr<std::vector<KeyDigest>> ParseKeys(std::string_view text, const std::string& file) {
  std::vector<KeyDigest> keys;
  std::string_view rest = text;
  for (int line = 1; !rest.empty(); ++line) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view key = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (key.ends_with('\r')) key.remove_suffix(1);
    key = Trim(key);
    if (key.empty()) continue;
    const auto wrong = [&](const std::string& what) { return FileError(absl::StrCat(file, ":", line), what); };
    if (const std::string what = WrongKey(key); !what.empty()) return wrong(what);
    const KeyDigest digest = DigestOfKey(key);
    if (std::find(keys.begin(), keys.end(), digest) != keys.end()) return wrong("the key occurs twice");
    if (keys.size() == kKeysAtOnce) return wrong(absl::StrCat("there are more than ", kKeysAtOnce, " keys"));
    keys.push_back(digest);
  }
  if (keys.empty()) return FileError(file, "holds no key");
  return keys;
}

absl::StatusOr<std::vector<KeyDigest>> ReadKeyFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSecretFile(path, kKeyFileBytesMax);
  return text.ok() ? ParseKeys(*text, path) : text.status();
}

absl::Status CheckKeyFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    if (const auto keys = ReadKeyFile(path); !keys.ok()) return keys.status();
  }
  return absl::OkStatus();
}

std::shared_ptr<RotatingKeys> RotatingKeys::Of(std::string_view key) {
  std::shared_ptr<RotatingKeys> made(new RotatingKeys(""));
  if (!key.empty()) made->keys_.Add(DigestOfKey(key), 0);
  return made;
}

absl::StatusOr<std::shared_ptr<RotatingKeys>> RotatingKeys::FromFile(const std::string& path) {
  std::shared_ptr<RotatingKeys> made(new RotatingKeys(path));
  const absl::StatusOr<std::vector<KeyDigest>> keys = made->Read();
  if (!keys.ok()) return keys.status();
  made->Put(*keys);
  return made;
}

bool RotatingKeys::Has(std::string_view key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return keys_.OwnerOf(key) == 0;
}

size_t RotatingKeys::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return keys_.size();
}

absl::StatusOr<std::vector<KeyDigest>> RotatingKeys::Read() const {
  if (!has_file()) return std::vector<KeyDigest>();
  return ReadKeyFile(path_);
}

void RotatingKeys::Put(const std::vector<KeyDigest>& keys) {
  if (!has_file()) return;
  KeyRing ring;
  for (const KeyDigest& key : keys) ring.Add(key, 0);
  const std::lock_guard<std::mutex> lock(mutex_);
  keys_ = std::move(ring);
}

}  // namespace hydrant
