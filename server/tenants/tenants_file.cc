#include "server/tenants/tenants_file.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "api/kv/kv_reader.h"
#include "api/wire/json_body.h"
#include "api/wire/json_writer.h"
#include "api/wire/object_reader.h"
#include "block_manager/kv_budget.h"
#include "scheduler/fairness/tenant.h"
#include "server/process/limits.h"
#include "server/process/secret_file.h"

namespace hydrant {
namespace {

constexpr int64_t kFileBytesMax = 4 << 20;
constexpr size_t kKeysMax = 16;  // two suffice for a rotation
// Ratios of a million between tenants are a mistake, and counters stay exact far beyond it.
constexpr double kWeightMin = 1e-3;
constexpr double kWeightMax = 1e3;
// Shorter, every request ends; longer, none does.
constexpr double kSecondsMin = 0.001;
constexpr double kSecondsMax = 1e7;
constexpr int64_t kInt32Max = 0x7fffffff;
constexpr int64_t kRateMax = 1'000'000'000'000;
constexpr size_t kNameBytesMax = 64;
constexpr size_t kAdaptersMax = 1000, kAdapterNameBytesMax = 256;

using Names = std::span<const std::string_view>;
constexpr std::string_view kFileMembers[] = {"tenants", "default_tenant"};
constexpr std::string_view kTenantMembers[] = {"name",
                                               "adapters",
                                               "api_keys_sha256",
                                               "weight",
                                               "kv",
                                               "sessions_max",
                                               "session_disk_bytes",
                                               "session_durability",
                                               "concurrency_max",
                                               "rpm",
                                               "tpm",
                                               "public_prefixes",
                                               "priority_max",
                                               "queue_max",
                                               "sequences_max",
                                               "max_tokens_max",
                                               "request_seconds_max"};
// A tenant's `kv` has these beside those of the request field (kKvMembers), of which the field's own reader decides.
constexpr std::string_view kTenantKvMembers[] = {"budget_max", "floor_blocks", "blocks_max"};

// Unlike in a request, where both have a meaning, an unknown or repeated member of a configuration is a slip of the pen.
void CheckMembers(JsonView object, const std::string& path, Names known, std::optional<ApiError>* error,
                  Names more = {}) {
  if (error->has_value() || !object.is_object()) return;
  absl::flat_hash_set<std::string_view> seen;
  for (JsonView member = object.first(); member.valid(); member = member.next()) {
    std::string name = path;
    AppendJsonEscaped(&name, member.key().substr(0, kNameBytesMax));  // a line stays one, whatever the name holds
    const auto has_it = [&](Names names) { return std::find(names.begin(), names.end(), member.key()) != names.end(); };
    if (!has_it(known) && !has_it(more)) {
      *error = InvalidField(name, "unknown member");
    } else if (!seen.insert(member.key()).second) {
      *error = InvalidField(name, "occurs twice");
    }
    if (error->has_value()) return;
  }
}

bool IsTenantName(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

void ReadName(ObjectReader* reader, TenantConfig* tenant) {
  tenant->name = reader->String("name", "", kNameBytesMax, /*identifier=*/true);
  // It becomes a label of metrics and a word in logs.
  if (!IsTenantName(tenant->name)) reader->Fail("name", "must be 1 to 64 characters of [A-Za-z0-9._-]");
}

void ReadKeys(ObjectReader* reader, TenantConfig* tenant) {
  for (const std::string& text : reader->Strings("api_keys_sha256", kKeysMax, 1024)) {
    const std::optional<KeyDigest> digest = KeyDigestFromHex(text);
    const std::string element = absl::StrCat("api_keys_sha256[", tenant->keys.size(), "]");
    if (!digest.has_value()) return reader->Fail(element, "must be a SHA-256: 64 hexadecimal digits");
    tenant->keys.push_back(*digest);
  }
}

int32_t BlocksOf(ObjectReader* kv, std::string_view name, int32_t min, int32_t pool) {
  const int64_t blocks = kv->Integer(name, 0, min, std::numeric_limits<int32_t>::max());
  if (blocks > pool) kv->Fail(name, absl::StrCat("is ", blocks, ", and the pool has ", pool, " blocks"));
  return static_cast<int32_t>(blocks);
}

void ReadKv(ObjectReader* reader, const TenantFacts& facts, TenantConfig* tenant, std::optional<ApiError>* error) {
  const JsonView object = reader->Raw("kv");
  CheckMembers(object, reader->Path("kv."), kTenantKvMembers, error, kKvMembers);
  ObjectReader kv = reader->Object("kv");
  tenant->kv_budget_max = static_cast<int32_t>(kv.Integer("budget_max", 0, 1, facts.context));
  tenant->floor_blocks = BlocksOf(&kv, "floor_blocks", 0, facts.blocks);
  tenant->names_floor = kv.Has("floor_blocks");
  tenant->blocks_max = BlocksOf(&kv, "blocks_max", 1, facts.blocks);
  if (reader->failed()) return;
  const int32_t budget_max = tenant->kv_budget_max > 0 ? tenant->kv_budget_max : facts.context;
  if (CheckKvSpec(facts.kv, budget_max).has_value() && !kv.Has("policy")) {
    return kv.Fail("budget_max",
                   "is below the server's default budget; give the tenant a policy and a budget of its own");
  }
  const auto has = [&kv](std::string_view member) { return kv.Has(member); };
  if (std::none_of(std::begin(kKvMembers), std::end(kKvMembers), has)) return;
  KvSpec default_value = facts.kv;
  if (CheckKvSpec(default_value, budget_max).has_value()) default_value = KvSpec();
  tenant->kv = ReadKvSpec(reader, default_value, budget_max);
  if (reader->failed() || !facts.check_kv) return;
  if (const std::optional<ApiError> wrong = facts.check_kv(*tenant->kv)) reader->Fail(wrong->param, wrong->message);
}

// What is running is not stopped for others, so that whoever waits for its memory waits this long at most, where nothing else is said.
constexpr double kSharedSecondsMax = 3600;

void ReadSeconds(ObjectReader* reader, bool shared, TenantConfig* tenant) {
  const double seconds = reader->Number("request_seconds_max", shared ? kSharedSecondsMax : 0, 0, kSecondsMax);
  if (seconds > 0 && seconds < kSecondsMin) {
    reader->Fail("request_seconds_max", absl::StrCat("must be 0, for no limit, or at least ", kSecondsMin));
  }
  tenant->request_seconds_max = seconds;
}

// What a session's turn has on the disk before its end is told. Less than the server's is not for a tenant to choose: its log is one.
void ReadDurability(ObjectReader* reader, const TenantFacts& facts, TenantConfig* tenant) {
  if (!reader->Has("session_durability")) return;
  const std::string said = reader->String("session_durability", "", 16, /*identifier=*/true);
  if (reader->failed()) return;
  if (said != "tokens" && said != "kv") {
    reader->Fail("session_durability", "must be tokens or kv");
  } else if (facts.durability == Durability::kNone) {
    reader->Fail("session_durability", "needs --session-dir, and a --session-durability other than none");
  } else if (said == "kv" && !facts.keeps_kv_files) {
    reader->Fail("session_durability", "kv needs --session-disk-bytes and --session-memory-bytes");
  }
  tenant->session_durability = said == "kv" ? Durability::kKv : Durability::kTokens;
}

// `shared`: it is not the only one.
TenantConfig ReadTenant(JsonView value, const std::string& path, const TenantFacts& facts, bool shared,
                        std::optional<ApiError>* error) {
  TenantConfig tenant;
  if (!value.is_object()) {
    *error = InvalidField(path.substr(0, path.size() - 1), "must be an object");
    return tenant;
  }
  CheckMembers(value, path, kTenantMembers, error);
  ObjectReader reader(value, path, error);
  ReadName(&reader, &tenant);
  ReadKeys(&reader, &tenant);
  tenant.weight = reader.Number("weight", 1.0, kWeightMin, kWeightMax);
  tenant.limits.concurrency_max = static_cast<int32_t>(reader.Integer("concurrency_max", 0, 1, kInt32Max));
  tenant.limits.rpm = reader.Integer("rpm", 0, 1, kRateMax);
  tenant.limits.tpm = reader.Integer("tpm", 0, 1, kRateMax);
  tenant.limits.queue_max = static_cast<int32_t>(reader.Integer("queue_max", 0, 1, kInt32Max));
  tenant.limits.sequences_max = static_cast<int32_t>(reader.Integer("sequences_max", 0, 1, kInt32Max));
  tenant.session_disk_bytes = reader.Integer("session_disk_bytes", 0, 1, int64_t{1} << 50);
  tenant.sessions_max = static_cast<int32_t>(reader.Integer("sessions_max", 0, 1, kInt32Max));
  tenant.priority_max = static_cast<int32_t>(reader.Integer("priority_max", 0, 0, kInt32Max));
  tenant.max_tokens_max = static_cast<int32_t>(reader.Integer("max_tokens_max", 0, 1, kInt32Max));
  if (reader.Has("adapters")) {
    const std::vector<std::string> names = reader.Strings("adapters", kAdaptersMax, kAdapterNameBytesMax);
    tenant.adapters = std::make_shared<const AdapterNames>(names.begin(), names.end());
  }
  ReadSeconds(&reader, shared, &tenant);
  const JsonView prefixes = reader.Raw("public_prefixes");
  if (prefixes.valid() && !(prefixes.is_array() && prefixes.size() == 0)) {
    reader.Fail("public_prefixes", "is not supported in this version");
  }
  ReadDurability(&reader, facts, &tenant);
  ReadKv(&reader, facts, &tenant, error);
  return tenant;
}

// A floor has a row at least. Of many tenants, or beside few rows, the floors that nobody names would keep more rows than this part
// of them, or than the share that was asked for: then there are none.
constexpr double kFloorRowsMost = 0.25;

// Nobody is preempted, so without a floor a tenant waits for as long as the others' streams last.
void ShareFloors(const TenantFacts& facts, TenantsConfig* config) {
  if (facts.floor_share == 0 || config->tenants.size() < 2) return;
  int64_t named = 0;
  double weights = 0;
  for (const TenantConfig& tenant : config->tenants) {
    named += tenant.floor_blocks;
    if (!tenant.names_floor) weights += tenant.weight;
  }
  const int64_t left = facts.blocks - named - BlocksForSlots(facts.context);
  const double blocks = std::min(facts.floor_share * facts.blocks, static_cast<double>(left));
  if (blocks <= 0) return;
  std::vector<int32_t> floors;
  double rows = 0;
  for (const TenantConfig& tenant : config->tenants) {
    const auto share = static_cast<int32_t>(blocks * tenant.weight / weights);
    floors.push_back(tenant.blocks_max > 0 ? std::min(share, tenant.blocks_max) : share);
    if (!tenant.names_floor) rows += FloorRows(floors.back(), facts.blocks, facts.sequences_max);
  }
  if (rows > std::max(kFloorRowsMost, facts.floor_share) * facts.sequences_max) return;
  for (size_t i = 0; i < floors.size(); ++i) {
    if (!config->tenants[i].names_floor) config->tenants[i].floor_blocks = floors[i];
  }
}

// What no single member shows.
std::optional<ApiError> CheckTogether(const TenantsConfig& config, const TenantFacts& facts) {
  absl::flat_hash_set<std::string> names;
  KeyRing keys;
  std::vector<TenantOptions> options;
  for (size_t i = 0; i < config.tenants.size(); ++i) {
    const TenantConfig& tenant = config.tenants[i];
    const std::string path = absl::StrCat("tenants[", i, "].");
    if (!names.insert(tenant.name).second) return InvalidField(path + "name", "another tenant has this name");
    for (size_t k = 0; k < tenant.keys.size(); ++k) {
      if (!keys.Add(tenant.keys[k], static_cast<int32_t>(i))) {
        return InvalidField(absl::StrCat(path, "api_keys_sha256[", k, "]"), "occurs twice");
      }
    }
    options.push_back({tenant.name, tenant.weight, tenant.floor_blocks, tenant.blocks_max});
  }
  const absl::Status status = ValidateTenants(options, facts.blocks, facts.sequences_max);
  if (!status.ok()) return InvalidField("tenants", std::string(status.message()));
  return std::nullopt;
}

TenantsConfig ReadTenants(JsonView root, const TenantFacts& facts, std::optional<ApiError>* error) {
  TenantsConfig config;
  CheckMembers(root, "", kFileMembers, error);
  ObjectReader reader(root, "", error);
  const JsonView list = reader.Raw("tenants");
  if (!list.valid() || !list.is_array() || list.size() == 0 || list.size() > uint32_t{kTenantsMax}) {
    reader.Fail("tenants", absl::StrCat("must be an array of 1 to ", kTenantsMax, " tenants"));
    return config;
  }
  for (JsonView element = list.first(); element.valid() && !error->has_value(); element = element.next()) {
    const std::string path = absl::StrCat("tenants[", config.tenants.size(), "].");
    config.tenants.push_back(ReadTenant(element, path, facts, list.size() > 1, error));
  }
  if (error->has_value()) return config;
  ShareFloors(facts, &config);
  if (std::optional<ApiError> wrong = CheckTogether(config, facts)) {
    *error = std::move(wrong);
    return config;
  }
  if (!reader.Has("default_tenant")) return config;
  const std::string name = reader.String("default_tenant", "", kNameBytesMax, /*identifier=*/true);
  for (size_t i = 0; i < config.tenants.size(); ++i) {
    if (config.tenants[i].name == name) config.default_tenant = static_cast<int32_t>(i);
  }
  if (config.default_tenant < 0) reader.Fail("default_tenant", "is not the name of a tenant");
  return config;
}

}  // namespace

TenantsConfig SingleTenant(std::vector<KeyDigest> keys) {
  TenantsConfig config;
  config.tenants.emplace_back();
  // Larger is later, and there is nobody else whose requests could be meant.
  config.tenants[0].priority_max = static_cast<int32_t>(kInt32Max);
  if (keys.empty()) config.default_tenant = 0;
  config.tenants[0].keys = std::move(keys);
  return config;
}

TenantsConfig SingleTenant(const std::string& api_key) {
  return api_key.empty() ? SingleTenant(std::vector<KeyDigest>()) : SingleTenant({DigestOfKey(api_key)});
}

absl::StatusOr<TenantsConfig> ParseTenants(std::string_view text, const std::string& file, const TenantFacts& facts) {
  std::string not_json;
  const std::optional<JsonBody> document = JsonBody::ParseFile(file, text, &not_json);
  if (!document.has_value()) return absl::FailedPreconditionError(not_json);
  const JsonView root = document->root();
  if (!root.is_object()) return FileError(file, "must be a JSON object");
  std::optional<ApiError> error;
  TenantsConfig config = ReadTenants(root, facts, &error);
  if (error.has_value()) {
    // Ranges are told with the member's name, as in a request.
    const std::string named = absl::StrCat("'", error->param, "' ");
    const bool again = error->message.starts_with(named);
    return FileError(file, absl::StrCat(error->param, ": ", error->message.substr(again ? named.size() : 0)));
  }
  return config;
}

absl::StatusOr<TenantsConfig> ReadTenantsFile(const std::string& path, const TenantFacts& facts) {
  const absl::StatusOr<std::string> text = ReadSecretFile(path, kFileBytesMax);
  if (!text.ok()) return text.status();
  return ParseTenants(*text, path, facts);
}

}  // namespace hydrant
