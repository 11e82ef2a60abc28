// TenantRegistry says who a key belongs to and what holds for them. A configuration is a TenantTable, immutable and
// complete; a reload builds the next one first and then puts it in the old one's place.
//
// Thread: any.
//
// Invariants
//  1. A table is never seen half built, and a reload that fails changes nothing.
//  2. A tenant's index (of the scheduler's tenants, of the series of metrics) is its name's for the life of the process.
//     A tenant that left the configuration keeps index and account; what it has running is finished.
//  3. The engine hears of new options before anybody can submit a request under them.
#ifndef HYDRANT_SERVER_TENANTS_TENANT_REGISTRY_H_
#define HYDRANT_SERVER_TENANTS_TENANT_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/fairness/tenant.h"
#include "server/tenants/key_ring.h"
#include "server/tenants/tenant_account.h"
#include "server/tenants/tenant_config.h"
#include "server/tenants/tenants_file.h"

namespace hydrant {

// A tenant as one configuration has it.
struct TenantEntry {
  TenantConfig config;
  std::shared_ptr<TenantAccount> account;
  double queue_share = 1;  // its weight's part of all weights
  int64_t blocks_max = 0;  // the most one sequence can ever be given

  int32_t index() const { return account->index(); }
};

class TenantTable {
 public:
  // Whose requests these are; null: nobody's. `authorization` is the field's value, null when there is none. A key that
  // is nobody's is never taken for a missing one, except where no tenant has a key at all.
  std::shared_ptr<const TenantEntry> Find(const std::string* authorization) const;
  // Whether some tenant has this key.
  bool HasKey(std::string_view key) const { return keys_.OwnerOf(key) >= 0; }
  size_t keys() const { return keys_.size(); }
  // What is to be told of a configuration that lets nobody in; empty: it lets somebody in.
  std::string_view warning() const;
  const std::vector<std::shared_ptr<const TenantEntry>>& entries() const { return entries_; }
  // Tenants that have left the configuration, or that AddGone named: nobody has their key, and what they left is the operator's.
  const std::vector<std::shared_ptr<const TenantEntry>>& gone() const { return gone_; }

 private:
  friend class TenantRegistry;

  std::vector<std::shared_ptr<const TenantEntry>> entries_;
  std::vector<std::shared_ptr<const TenantEntry>> gone_;
  KeyRing keys_;                                       // owners are places in entries_
  std::shared_ptr<const TenantEntry> default_tenant_;  // may be null
};

class TenantRegistry {
 public:
  // A configuration that stays.
  TenantRegistry(const TenantsConfig& config, const TenantFacts& facts);
  // The one in a tenants file. Errors: ReadTenantsFile's.
  static absl::StatusOr<std::unique_ptr<TenantRegistry>> FromFile(const std::string& path, const TenantFacts& facts);
  // The single tenant whose keys are in a file. Errors: ReadKeyFile's.
  static absl::StatusOr<std::unique_ptr<TenantRegistry>> FromKeyFile(const std::string& path, const TenantFacts& facts);

  struct Hooks {
    std::function<void(const std::string& name)> on_new_tenant;            // the next index
    std::function<void(const std::vector<TenantOptions>& options)> apply;  // by index
  };
  // Names that an earlier process had, and that something is left of: they are tenants that have left the configuration. Returns how
  // many of them there is no room for: half of kTenantsMax is left to configurations to come. Before SetHooks, and before anybody asks
  // for options or names.
  size_t AddGone(const std::set<std::string>& names);
  // Before the first Reload.
  void SetHooks(Hooks hooks) { hooks_ = std::move(hooks); }

  std::shared_ptr<const TenantTable> table() const;
  // By index, also of tenants that are gone.
  std::vector<TenantOptions> options() const;
  std::vector<std::string> names() const;
  bool has_file() const { return read_ != nullptr; }
  // Requests of several parties: what one of them may see of the others matters.
  bool shared() const { return shared_; }

  // Reads the file again. Errors, which change nothing: FromFile's or FromKeyFile's; RESOURCE_EXHAUSTED when there have been more
  // than kTenantsMax names; UNIMPLEMENTED without a file.
  absl::Status Reload();

 private:
  using Read = std::function<absl::StatusOr<TenantsConfig>()>;

  TenantRegistry(std::string path, Read read, bool shared, const TenantFacts& facts)
      : path_(std::move(path)), read_(std::move(read)), shared_(shared), facts_(facts) {}
  static absl::StatusOr<std::unique_ptr<TenantRegistry>> Make(const std::string& path, Read read, bool shared,
                                                              const TenantFacts& facts);
  absl::Status Apply(const TenantsConfig& config);

  const std::string path_;
  const Read read_;  // what the file says now; null: there is none
  const bool shared_ = false;
  const TenantFacts facts_;
  Hooks hooks_;
  std::mutex reload_mutex_;  // one reload at a time

  mutable std::mutex mutex_;
  // Guarded by mutex_; written with reload_mutex_ held too.
  std::vector<std::shared_ptr<TenantAccount>> accounts_;  // by index
  std::vector<TenantOptions> options_;                    // by index
  std::shared_ptr<const TenantTable> table_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_TENANTS_TENANT_REGISTRY_H_
