// Whatever is in a tenants file, reading it ends in tenants within their ranges or in one printable line. Whatever is in a file of keys,
// reading it ends in one key or two, or in a line without any of it.
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/wire/json_writer.h"
#include "server/tenants/rotating_keys.h"
#include "server/tenants/tenants_file.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace {

// A line is "k:N: " and words that are the same for every file.
void CheckKeys(std::string_view input) {
  const absl::StatusOr<std::vector<KeyDigest>> keys = ParseKeys(input, "k");
  if (keys.ok()) return Require(keys->size() == 1 || keys->size() == 2, "there are one key or two");
  std::string message(keys.status().message());
  message.erase(0, message.find(": ") + 2);
  Require(message == "holds no key" || message == "the key occurs twice" || message == "there are more than 2 keys" ||
              message == "a key has at most 1024 bytes" ||
              message == "a key has visible ASCII characters alone, and no spaces",
          "an error has nothing of the file");
}

}  // namespace

void Fuzz(std::string_view input) {
  CheckKeys(input);
  const TenantFacts facts{.blocks = 100, .sequences_max = 8, .context = 4096, .kv = {}};
  const absl::StatusOr<TenantsConfig> config = ParseTenants(input, "t.json", facts);
  if (!config.ok()) {
    const std::string_view message(config.status().message().data(), config.status().message().size());
    Require(message.substr(0, 7) == "t.json:", "an error names the file");
    Require(message.find('\n') == std::string_view::npos && IsValidUtf8(message), "an error is one printable line");
    return;
  }
  Require(!config->tenants.empty(), "there is a tenant");
  std::set<std::string> names;
  int64_t floors = 0;
  for (const TenantConfig& tenant : config->tenants) {
    Require(names.insert(tenant.name).second, "names differ");
    floors += tenant.floor_blocks;
  }
  Require(floors <= facts.blocks, "floors fit the pool");
  Require(config->default_tenant < static_cast<int32_t>(config->tenants.size()), "the default tenant is one of them");
}

}  // namespace hydrant
