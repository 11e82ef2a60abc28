#include "server/tenants/tenants_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kDigest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";  // of "abc"

TenantFacts SmallServer() { return {.blocks = 100, .sequences_max = 8, .context = 4096, .kv = {}}; }

// A file with one tenant of these members beside its name.
std::string One(const std::string& members) { return R"({"tenants":[{"name":"a",)" + members + "}]}"; }

TEST(TenantsFile, EveryMemberArrives) {
  const auto config = ParseTenants(R"({
    "tenants": [
      {"name": "team-a", "api_keys_sha256": [")" +
                                       kDigest + R"("], "weight": 3,
       "kv": {"policy": "h2o", "budget": 256, "recent": 100, "budget_max": 512, "floor_blocks": 20, "blocks_max": 60},
       "sessions_max": 7, "concurrency_max": 8, "rpm": 60, "tpm": 100000, "queue_max": 9, "sequences_max": 12, "priority_max": 10,
       "adapters": ["poet", "legal"], "max_tokens_max": 500, "request_seconds_max": 90.5, "public_prefixes": []},
      {"name": "guests", "weight": 0.5}],
    "default_tenant": "guests"})",
                                   "t.json", SmallServer());
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->tenants.size(), 2u);
  EXPECT_EQ(config->default_tenant, 1);
  const TenantConfig& a = config->tenants[0];
  EXPECT_EQ(a.name, "team-a");
  ASSERT_EQ(a.keys.size(), 1u);
  EXPECT_EQ(a.keys[0], DigestOfKey("abc"));
  EXPECT_EQ(a.weight, 3);
  ASSERT_TRUE(a.kv.has_value());
  EXPECT_EQ(a.kv->preset, KvPreset::kH2o);
  EXPECT_EQ(a.kv->budget_tokens, 256);
  EXPECT_EQ(a.kv->recent, 100);
  EXPECT_EQ(a.kv_budget_max, 512);
  EXPECT_EQ(a.floor_blocks, 20);
  EXPECT_EQ(a.blocks_max, 60);
  EXPECT_EQ(a.sessions_max, 7);
  EXPECT_EQ(a.limits.concurrency_max, 8);
  EXPECT_EQ(a.limits.rpm, 60);
  EXPECT_EQ(a.limits.tpm, 100'000);
  EXPECT_EQ(a.limits.queue_max, 9);
  EXPECT_EQ(a.limits.sequences_max, 12);
  EXPECT_EQ(a.priority_max, 10);
  EXPECT_EQ(a.max_tokens_max, 500);
  EXPECT_THAT(a.adapters, testing::Pointee(testing::ElementsAre("legal", "poet")));
  EXPECT_EQ(a.request_seconds_max, 90.5);
  const TenantConfig& guests = config->tenants[1];
  EXPECT_FALSE(guests.kv.has_value()) << "the server's default";
  EXPECT_EQ(guests.limits.rpm, 0);
  EXPECT_EQ(guests.priority_max, 0);
  EXPECT_EQ(guests.max_tokens_max, 0);
  EXPECT_EQ(guests.adapters, nullptr) << "all";
  EXPECT_EQ(guests.request_seconds_max, 3600) << "others may wait for what it holds";
  EXPECT_TRUE(guests.keys.empty());
}

TEST(TenantsFile, EveryMistakeIsRefusedWithItsPlace) {
  const struct {
    const char* name;
    std::string text;
    const char* where;
  } cases[] = {
      {"no JSON", "", "t.json:1: "},
      {"a line", "{\n \"tenants\": [\n  {\"name\": }]}", "t.json:3: "},
      {"NaN is not JSON", "{\"tenants\":\n[{\"name\":\"a\",\"weight\":NaN}]}", "t.json:2: "},
      {"no object", "[]", "t.json: must be a JSON object"},
      {"no tenants", "{}", "t.json: tenants: "},
      {"empty", R"({"tenants":[]})", "tenants: "},
      {"not a list", R"({"tenants":{}})", "tenants: "},
      {"no tenant", R"({"tenants":[5]})", "tenants[0]: "},
      {"unknown member of the file", R"({"tenants":[{"name":"a"}],"tenant":1})", "t.json: tenant: "},
      {"no name", R"({"tenants":[{"weight":1}]})", "tenants[0].name: "},
      {"blank name", R"({"tenants":[{"name":"a b"}]})", "tenants[0].name: "},
      {"long name", R"({"tenants":[{"name":")" + std::string(65, 'x') + R"("}]})", "tenants[0].name: "},
      {"name of another", R"({"tenants":[{"name":"a"},{"name":"b"},{"name":"a"}]})", "tenants[2].name: "},
      {"unknown member", One(R"("rpms":1)"), "tenants[0].rpms: unknown member"},
      {"a line end in a member's name", One(R"("r\npm":1)"), "tenants[0].r\\npm: unknown member"},
      {"member twice", One(R"("rpm":1,"rpm":2)"), "tenants[0].rpm: occurs twice"},
      {"weight 0", One(R"("weight":0)"), "tenants[0].weight: "},
      {"weight -1", One(R"("weight":-1)"), "tenants[0].weight: "},
      {"weight as text", One(R"("weight":"NaN")"), "tenants[0].weight: "},
      {"weight 1e300", One(R"("weight":1e300)"), "tenants[0].weight: "},
      {"concurrency 0", One(R"("concurrency_max":0)"), "tenants[0].concurrency_max: "},
      {"rpm 0", One(R"("rpm":0)"), "tenants[0].rpm: "},
      {"tpm 0", One(R"("tpm":0)"), "tenants[0].tpm: "},
      {"tpm 1.5", One(R"("tpm":1.5)"), "tenants[0].tpm: "},
      {"sequences 0", One(R"("sequences_max":0)"), "tenants[0].sequences_max: "},
      {"no names", One(R"("adapters":[1])"), "tenants[0].adapters"},
      {"no answers", One(R"("max_tokens_max":0)"), "tenants[0].max_tokens_max: "},
      {"no time", One(R"("request_seconds_max":0.0001)"), "tenants[0].request_seconds_max: "},
      {"queue 0", One(R"("queue_max":0)"), "tenants[0].queue_max: "},
      {"sessions 0", One(R"("sessions_max":0)"), "tenants[0].sessions_max: "},
      {"priority -1", One(R"("priority_max":-1)"), "tenants[0].priority_max: "},
      {"short digest", One(R"("api_keys_sha256":["abc"])"), "tenants[0].api_keys_sha256[0]: "},
      {"second digest", One(R"("api_keys_sha256":[")" + kDigest + R"(","x"])"), "tenants[0].api_keys_sha256[1]: "},
      {"digest no text", One(R"("api_keys_sha256":[5])"), "tenants[0].api_keys_sha256: "},
      {"digest twice", One(R"("api_keys_sha256":[")" + kDigest + R"(",")" + kDigest + R"("])"),
       "tenants[0].api_keys_sha256[1]: "},
      {"key of another",
       R"({"tenants":[{"name":"a","api_keys_sha256":[")" + kDigest + R"("]},{"name":"b","api_keys_sha256":[")" +
           kDigest + R"("]}]})",
       "tenants[1].api_keys_sha256[0]: "},
      {"unknown default", R"({"tenants":[{"name":"a"}],"default_tenant":"b"})", "default_tenant: "},
      {"kv no object", One(R"("kv":5)"), "tenants[0].kv: "},
      {"unknown member of kv", One(R"("kv":{"budgets":5})"), "tenants[0].kv.budgets: "},
      {"unknown policy", One(R"("kv":{"policy":"nope"})"), "tenants[0].kv.policy: "},
      {"no budget", One(R"("kv":{"policy":"h2o"})"), "tenants[0].kv.budget: "},
      {"a floor above the budget", One(R"("kv":{"policy":"h2o","budget":64,"floor":65})"), "tenants[0].kv.floor: "},
      {"a floor of nothing", One(R"("kv":{"floor":32})"), "tenants[0].kv.floor: "},
      {"elastic without a budget", One(R"("kv":{"elastic":true})"), "tenants[0].kv.elastic: "},
      {"prefill it cannot have", One(R"("kv":{"policy":"snapkv","budget":64,"prefill":"budgeted"})"),
       "tenants[0].kv.prefill: "},
      {"positions that are none", One(R"("kv":{"policy":"h2o","budget":64,"position":"spinning"})"),
       "tenants[0].kv.position: "},
      {"position without a policy that evicts", One(R"("kv":{"position":"rolling"})"), "tenants[0].kv.position: "},
      {"prefill without a budget", One(R"("kv":{"prefill":"budgeted"})"), "tenants[0].kv.prefill: "},
      {"budget above its maximum", One(R"("kv":{"policy":"h2o","budget":65,"budget_max":64})"),
       "tenants[0].kv.budget: "},
      {"budget_max 0", One(R"("kv":{"budget_max":0})"), "tenants[0].kv.budget_max: must be in [1, "},
      {"budget_max above the context", One(R"("kv":{"budget_max":4097})"), "tenants[0].kv.budget_max: "},
      {"cap 0", One(R"("kv":{"blocks_max":0})"), "tenants[0].kv.blocks_max: "},
      {"cap above the pool", One(R"("kv":{"blocks_max":101})"),
       "tenants[0].kv.blocks_max: is 101, and the pool has 100 blocks"},
      {"floor above the pool", One(R"("kv":{"floor_blocks":101})"),
       "tenants[0].kv.floor_blocks: is 101, and the pool has 100 blocks"},
      {"floor above the cap", One(R"("kv":{"floor_blocks":9,"blocks_max":8})"), "tenants: tenant a: "},
      {"floors above the pool",
       R"({"tenants":[{"name":"a","kv":{"floor_blocks":60}},{"name":"b","kv":{"floor_blocks":41}}]})",
       "tenants: tenant "},
      {"prefixes", One(R"("public_prefixes":["x"])"), "tenants[0].public_prefixes: "},
  };
  for (const auto& test : cases) {
    const auto config = ParseTenants(test.text, "t.json", SmallServer());
    ASSERT_FALSE(config.ok()) << test.name;
    const std::string message(config.status().message());
    EXPECT_EQ(config.status().code(), absl::StatusCode::kFailedPrecondition) << test.name;
    EXPECT_THAT(message, StartsWith("t.json")) << test.name;
    EXPECT_THAT(message, HasSubstr(test.where)) << test.name;
    EXPECT_THAT(message, Not(HasSubstr("ba7816bf"))) << test.name;
    EXPECT_EQ(message.find('\n'), std::string::npos) << test.name;
  }
}

TEST(TenantsFile, ABudgetMaximumMustAdmitTheServersDefault) {
  TenantFacts facts = SmallServer();
  facts.kv.preset = KvPreset::kH2o;
  facts.kv.budget_kind = KvBudgetKind::kTokens;
  facts.kv.budget_tokens = 256;
  EXPECT_TRUE(ParseTenants(One(R"("kv":{"budget_max":256})"), "t", facts).ok());
  EXPECT_FALSE(ParseTenants(One(R"("kv":{"budget_max":255})"), "t", facts).ok());
  EXPECT_TRUE(ParseTenants(One(R"("kv":{"budget_max":255,"policy":"window","budget":255})"), "t", facts).ok());
}

TEST(TenantsFile, ADefaultThatNoRequestCouldUseIsRefusedByItsPlace) {
  TenantFacts facts = SmallServer();
  facts.check_kv = [](const KvSpec& spec) {
    return spec.preset == KvPreset::kAuto ? std::optional(InvalidField("kv.policy", "not here")) : std::nullopt;
  };
  const auto config = ParseTenants(One(R"("kv":{"policy":"auto","budget":64})"), "t", facts);
  EXPECT_EQ(config.status(), absl::FailedPreconditionError("t: tenants[0].kv.policy: not here"));
  EXPECT_TRUE(ParseTenants(One(R"("kv":{"policy":"h2o","budget":64})"), "t", facts).ok());
  EXPECT_TRUE(ParseTenants(One(R"("kv":{"budget_max":64})"), "t", facts).ok()) << "it has the server's default";
}

TEST(TenantsFile, FloorsThatNobodyNamesAreSharedByWeight) {
  TenantFacts facts = SmallServer();
  facts.blocks = 1000;
  facts.sequences_max = 64;
  facts.context = 640;  // 40 blocks
  const auto floors = [&](const std::string& tenants) {
    const auto config = ParseTenants(R"({"tenants":[)" + tenants + "]}", "t", facts);
    EXPECT_TRUE(config.ok()) << config.status();
    std::vector<int32_t> found;
    for (const TenantConfig& tenant : config->tenants) found.push_back(tenant.floor_blocks);
    return found;
  };
  const std::string a = R"({"name":"a","weight":3})", b = R"({"name":"b"})";
  EXPECT_THAT(floors(a + "," + b), ElementsAre(0, 0)) << "nobody asked for them";
  facts.floor_share = 0.2;
  EXPECT_THAT(floors(a + "," + b), ElementsAre(150, 50));
  EXPECT_THAT(floors(a), ElementsAre(0)) << "nobody else is there";
  EXPECT_THAT(floors(a + "," + b + R"(,{"name":"c","kv":{"floor_blocks":300}})"), ElementsAre(150, 50, 300));
  EXPECT_THAT(floors(a + "," + b + R"(,{"name":"c","kv":{"floor_blocks":0}})"), ElementsAre(150, 50, 0)) << "named";
  EXPECT_THAT(floors(a + "," + b + R"(,{"name":"c","kv":{"floor_blocks":900}})"), ElementsAre(45, 15, 900))
      << "a request of a full context fits beside them";
  EXPECT_THAT(floors(a + R"(,{"name":"b","kv":{"blocks_max":20}})"), ElementsAre(150, 20));
  facts.sequences_max = 8;  // a row each is a quarter of them
  EXPECT_THAT(floors(a + "," + b), ElementsAre(150, 50));
  facts.sequences_max = 7;
  EXPECT_THAT(floors(a + "," + b), ElementsAre(0, 0));
  facts.floor_share = 0.5;
  EXPECT_THAT(floors(a + "," + b), ElementsAre(375, 125)) << "what was asked for";
  facts.context = 16'000;
  EXPECT_THAT(floors(a + "," + b), ElementsAre(0, 0)) << "a context takes the whole pool";
}

TEST(TenantsFile, WhoSharesTheServerHoldsNothingForMoreThanAnHourUnlessTheFileSaysSo) {
  const auto seconds = [](const std::string& tenants) {
    const auto config = ParseTenants(R"({"tenants":[)" + tenants + "]}", "t", SmallServer());
    EXPECT_TRUE(config.ok()) << config.status();
    std::vector<double> found;
    for (const TenantConfig& tenant : config->tenants) found.push_back(tenant.request_seconds_max);
    return found;
  };
  const std::string a = R"({"name":"a"})", endless = R"({"name":"b","request_seconds_max":0})";
  EXPECT_THAT(seconds(a), ElementsAre(0)) << "nobody else is there";
  EXPECT_THAT(seconds(a + "," + endless), ElementsAre(3600, 0));
  EXPECT_THAT(seconds(a + R"(,{"name":"b","request_seconds_max":86400})"), ElementsAre(3600, 86400));
}

TEST(TenantsFile, OnlyItsOwnerMayReadTheFile) {
  const TempDir dir;
  const std::string path = dir.Write("t.json", R"({"tenants":[{"name":"a"}]})");
  for (const mode_t mode : {0644, 0640, 0604, 0660, 0610}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const auto config = ReadTenantsFile(path, SmallServer());
    ASSERT_FALSE(config.ok()) << std::oct << mode;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr("chmod 600"));
    EXPECT_THAT(std::string(config.status().message()), StartsWith(path));
  }
  for (const mode_t mode : {0600, 0400}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(ReadTenantsFile(path, SmallServer()).ok()) << std::oct << mode;
  }
}

TEST(TenantsFile, AFileThatIsNoneIsRefused) {
  const TempDir dir;
  EXPECT_THAT(std::string(ReadTenantsFile(dir.File("missing"), SmallServer()).status().message()),
              HasSubstr("missing"));
  ASSERT_EQ(mkfifo(dir.File("fifo").c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadTenantsFile(dir.File("fifo"), SmallServer()).status().message()), HasSubstr("regular"));
  EXPECT_FALSE(ReadTenantsFile(dir.path(), SmallServer()).ok());
}

TEST(TenantsFile, WithoutAFileThereIsOneTenant) {
  const TenantsConfig open = SingleTenant("");
  ASSERT_EQ(open.tenants.size(), 1u);
  EXPECT_EQ(open.tenants[0].name, "default");
  EXPECT_EQ(open.default_tenant, 0);
  const TenantsConfig keyed = SingleTenant("abc");
  EXPECT_EQ(keyed.default_tenant, -1);
  EXPECT_EQ(keyed.tenants[0].keys[0], DigestOfKey("abc"));
}

}  // namespace
}  // namespace hydrant
