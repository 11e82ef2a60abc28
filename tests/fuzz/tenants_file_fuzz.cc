// Whatever is in a tenants file, reading it ends in tenants within their ranges or in one printable line.
#include <set>
#include <string>
#include <string_view>

#include "api/wire/json_writer.h"
#include "server/tenants/tenants_file.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {

void Fuzz(std::string_view input) {
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
