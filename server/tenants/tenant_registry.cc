#include "server/tenants/tenant_registry.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/process/clock.h"
#include "server/process/limits.h"
#include "server/tenants/rotating_keys.h"

namespace hydrant {

namespace {

std::shared_ptr<const TenantEntry> GoneEntry(const std::shared_ptr<TenantAccount>& account, double weight) {
  TenantConfig config;
  config.name = account->name();
  config.weight = weight;
  return std::make_shared<const TenantEntry>(TenantEntry{.config = std::move(config), .account = account});
}

}  // namespace

std::shared_ptr<const TenantEntry> TenantTable::Find(const std::string* authorization) const {
  if (authorization == nullptr || keys_.size() == 0) return default_tenant_;
  const std::optional<std::string_view> token = BearerToken(*authorization);
  if (!token.has_value()) return nullptr;
  const int32_t owner = keys_.OwnerOf(*token);
  return owner < 0 ? nullptr : entries_[static_cast<size_t>(owner)];
}

std::string_view TenantTable::warning() const {
  if (keys_.size() > 0 || default_tenant_ != nullptr) return "";
  return "no tenant has a key, and there is no default_tenant: every request is answered 401";
}

TenantRegistry::TenantRegistry(const TenantsConfig& config, const TenantFacts& facts) : facts_(facts) {
  const absl::Status status = Apply(config);
  assert(status.ok());
}

absl::StatusOr<std::unique_ptr<TenantRegistry>> TenantRegistry::FromFile(const std::string& path,
                                                                         const TenantFacts& facts) {
  return Make(
      path, [path, facts] { return ReadTenantsFile(path, facts); }, /*shared=*/true, facts);
}

absl::StatusOr<std::unique_ptr<TenantRegistry>> TenantRegistry::FromKeyFile(const std::string& path,
                                                                            const TenantFacts& facts) {
  const auto read = [path]() -> absl::StatusOr<TenantsConfig> {
    absl::StatusOr<std::vector<KeyDigest>> keys = ReadKeyFile(path);
    if (!keys.ok()) return keys.status();
    return SingleTenant(*std::move(keys));
  };
  return Make(path, read, /*shared=*/false, facts);
}

absl::StatusOr<std::unique_ptr<TenantRegistry>> TenantRegistry::Make(const std::string& path, Read read, bool shared,
                                                                     const TenantFacts& facts) {
  absl::StatusOr<TenantsConfig> config = read();
  if (!config.ok()) return config.status();
  std::unique_ptr<TenantRegistry> registry(new TenantRegistry(path, std::move(read), shared, facts));
  if (absl::Status status = registry->Apply(*config); !status.ok()) return status;
  return registry;
}

std::shared_ptr<const TenantTable> TenantRegistry::table() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return table_;
}

std::vector<TenantOptions> TenantRegistry::options() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return options_;
}

std::vector<std::string> TenantRegistry::names() const {
  std::vector<std::string> names;
  for (const TenantOptions& options : this->options()) names.push_back(options.name);
  return names;
}

size_t TenantRegistry::AddGone(const std::set<std::string>& names) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto table = std::make_shared<TenantTable>(*table_);
  size_t without_room = 0;
  for (const std::string& name : names) {
    const auto same = [&](const auto& account) { return account->name() == name; };
    if (std::any_of(accounts_.begin(), accounts_.end(), same)) continue;
    if (accounts_.size() >= size_t{kTenantsMax} / 2) {
      ++without_room;
      continue;
    }
    accounts_.push_back(std::make_shared<TenantAccount>(static_cast<int32_t>(accounts_.size()), name));
    options_.push_back({.name = name, .gone = true});
    table->gone_.push_back(GoneEntry(accounts_.back(), options_.back().weight));
  }
  table_ = std::move(table);
  return without_room;
}

absl::Status TenantRegistry::Reload() {
  if (!has_file()) return absl::UnimplementedError("there is no file to read again (--tenants, --api-key-file)");
  const std::lock_guard<std::mutex> lock(reload_mutex_);
  absl::StatusOr<TenantsConfig> config = read_();
  if (!config.ok()) return config.status();
  return Apply(*config);
}

absl::Status TenantRegistry::Apply(const TenantsConfig& config) {
  std::vector<std::shared_ptr<TenantAccount>> accounts = accounts_;
  const size_t known = accounts.size();
  std::vector<TenantOptions> options;
  // What one has left when it goes is weighed as before.
  for (const TenantOptions& last : options_)
    options.push_back({.name = last.name, .weight = last.weight, .gone = true});
  std::vector<size_t> indices;  // of config.tenants
  double weights = 0;
  for (const TenantConfig& tenant : config.tenants) {
    const auto same = [&](const auto& account) { return account->name() == tenant.name; };
    indices.push_back(static_cast<size_t>(std::find_if(accounts.begin(), accounts.end(), same) - accounts.begin()));
    if (indices.back() == accounts.size()) {
      accounts.push_back(std::make_shared<TenantAccount>(static_cast<int32_t>(accounts.size()), tenant.name));
      options.emplace_back();
    }
    options[indices.back()] = {tenant.name, tenant.weight, tenant.floor_blocks, tenant.blocks_max};
    weights += tenant.weight;
  }
  if (accounts.size() > size_t{kTenantsMax}) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path_, ": with the tenants of earlier configurations there would be ", accounts.size(),
                     " names; at most ", kTenantsMax, " until the server is started again"));
  }
  auto table = std::make_shared<TenantTable>();
  for (size_t i = 0; i < config.tenants.size(); ++i) {
    const TenantConfig& tenant = config.tenants[i];
    for (const KeyDigest& key : tenant.keys) table->keys_.Add(key, static_cast<int32_t>(i));
    table->entries_.push_back(std::make_shared<const TenantEntry>(TenantEntry{
        tenant, accounts[indices[i]], tenant.weight / weights, BlocksMaxOf(options, indices[i], facts_.blocks)}));
  }
  for (size_t i = 0; i < accounts.size(); ++i) {
    if (options[i].gone) table->gone_.push_back(GoneEntry(accounts[i], options[i].weight));
  }
  if (config.default_tenant >= 0) {
    table->default_tenant_ = table->entries_[static_cast<size_t>(config.default_tenant)];
  }

  // From here on nothing fails.
  if (hooks_.on_new_tenant) {
    for (size_t i = known; i < accounts.size(); ++i) hooks_.on_new_tenant(accounts[i]->name());
  }
  if (hooks_.apply) hooks_.apply(options);
  const int64_t now_us = MonotonicUs();
  for (const auto& entry : table->entries_) entry->account->SetLimits(entry->config.limits, now_us);
  const std::lock_guard<std::mutex> lock(mutex_);
  accounts_ = std::move(accounts);
  options_ = std::move(options);
  table_ = std::move(table);
  return absl::OkStatus();
}

}  // namespace hydrant
