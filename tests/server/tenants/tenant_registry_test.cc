#include "server/tenants/tenant_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <string>
#include <vector>

#include "server/process/clock.h"
#include "server/process/limits.h"
#include "tests/server/key_hex.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TenantFacts Facts() { return {.blocks = 100, .sequences_max = 8, .context = 4096, .kv = {}}; }

std::string Tenant(const std::string& name, const std::string& key, const std::string& more = "") {
  return R"({"name":")" + name + R"(","api_keys_sha256":[")" + HexOfKey(key) + R"("])" + more + "}";
}

class TenantRegistryTest : public testing::Test {
 protected:
  void Write(const std::string& text) {
    path_ = dir_.Write("t.json", text);
    ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  }
  void Load(const std::string& tenants) {
    Write(R"({"tenants":[)" + tenants + "]}");
    auto made = TenantRegistry::FromFile(path_, Facts());
    ASSERT_TRUE(made.ok()) << made.status();
    registry_ = std::move(*made);
    registry_->SetHooks({[this](const std::string& name) { new_names_.push_back(name); },
                         [this](const std::vector<TenantOptions>& options) { applied_ = options; }});
  }
  std::string NameOf(const std::string& authorization) const {
    const auto entry = registry_->table()->Find(&authorization);
    return entry == nullptr ? "" : entry->config.name;
  }

  TempDir dir_;
  std::string path_;
  std::unique_ptr<TenantRegistry> registry_;
  std::vector<std::string> new_names_;
  std::vector<TenantOptions> applied_;
};

TEST_F(TenantRegistryTest, WhatIsLeftOfEarlierTenantsIsThatOfTenantsThatAreGone) {
  const auto gone = [this] {
    std::vector<std::string> names;
    for (const auto& entry : registry_->table()->gone()) names.push_back(entry->config.name);
    return names;
  };
  Load(Tenant("a", "key-a"));
  EXPECT_EQ(registry_->AddGone({"a", "old", "older"}), 0u);
  EXPECT_THAT(registry_->names(), ElementsAre("a", "old", "older"));
  EXPECT_TRUE(registry_->options()[1].gone);
  EXPECT_THAT(gone(), ElementsAre("old", "older"));
  EXPECT_EQ(registry_->table()->gone()[1]->index(), 2);
  EXPECT_EQ(registry_->table()->entries().size(), 1u);
  // One comes back, and another one goes.
  Write(R"({"tenants":[)" + Tenant("old", "key-o") + "]}");
  ASSERT_TRUE(registry_->Reload().ok());
  EXPECT_THAT(gone(), ElementsAre("a", "older"));
  EXPECT_EQ(registry_->table()->entries()[0]->index(), 1);
  std::set<std::string> many;
  for (int i = 0; i < kTenantsMax; ++i) many.insert("t" + std::to_string(i));
  EXPECT_EQ(registry_->AddGone(many), many.size() - kTenantsMax / 2 + 3) << "room is left for others to come";
}

TEST_F(TenantRegistryTest, AKeyIsItsTenantsAndNobodyElses) {
  Load(Tenant("a", "key-a") + "," + Tenant("b", "key-b"));
  EXPECT_EQ(NameOf("Bearer key-a"), "a");
  EXPECT_EQ(NameOf("bearer key-b"), "b");
  EXPECT_EQ(NameOf("Bearer key-c"), "");
  EXPECT_EQ(NameOf("key-a"), "");
  EXPECT_EQ(registry_->table()->Find(nullptr), nullptr);
  EXPECT_TRUE(registry_->table()->HasKey("key-a"));
  EXPECT_FALSE(registry_->table()->HasKey("key-c"));
}

TEST_F(TenantRegistryTest, TheDefaultTenantIsForThoseWithoutAKeyNotForThoseWithAWrongOne) {
  Write(R"({"tenants":[)" + Tenant("a", "key-a") + R"(,{"name":"guests"}],"default_tenant":"guests"})");
  auto made = TenantRegistry::FromFile(path_, Facts());
  ASSERT_TRUE(made.ok()) << made.status();
  registry_ = std::move(*made);
  EXPECT_EQ(registry_->table()->Find(nullptr)->config.name, "guests");
  EXPECT_EQ(NameOf("Bearer key-a"), "a");
  EXPECT_EQ(NameOf("Bearer revoked"), "");
  EXPECT_EQ(NameOf("Basic x"), "");
}

TEST_F(TenantRegistryTest, WithoutAnyKeyWhateverIsPresentedIsLetIn) {
  const TenantRegistry registry(SingleTenant(""), Facts());
  const std::string any = "Bearer none";
  EXPECT_NE(registry.table()->Find(&any), nullptr) << "client libraries always send one";
  EXPECT_NE(registry.table()->Find(nullptr), nullptr);
  EXPECT_FALSE(registry.shared());
  const TenantRegistry keyed(SingleTenant("k"), Facts());
  EXPECT_EQ(keyed.table()->Find(&any), nullptr);
  EXPECT_EQ(keyed.table()->Find(nullptr), nullptr);
}

TEST_F(TenantRegistryTest, AReloadReplacesEverythingAtOnceAndKeepsIndices) {
  Load(Tenant("a", "key-a") + "," + Tenant("b", "key-b", R"(,"rpm":5,"kv":{"floor_blocks":10})"));
  const auto before = registry_->table();
  Write(R"({"tenants":[)" + Tenant("c", "key-c") + "," + Tenant("b", "new-b", R"(,"weight":4,"kv":{"blocks_max":7})") +
        "]}");
  ASSERT_TRUE(registry_->Reload().ok());
  EXPECT_EQ(NameOf("Bearer key-a"), "");
  EXPECT_EQ(NameOf("Bearer key-b"), "") << "rotated";
  EXPECT_EQ(NameOf("Bearer new-b"), "b");
  EXPECT_EQ(NameOf("Bearer key-c"), "c");
  EXPECT_THAT(new_names_, ElementsAre("c"));
  ASSERT_EQ(applied_.size(), 3u);
  EXPECT_EQ(applied_[0].name, "a");
  EXPECT_EQ(applied_[1].name, "b");
  EXPECT_EQ(applied_[1].weight, 4);
  EXPECT_EQ(applied_[1].floor_blocks, 0);
  EXPECT_EQ(applied_[1].blocks_max, 7);
  EXPECT_EQ(applied_[2].name, "c");
  const std::string key = "Bearer new-b";
  const auto entry = registry_->table()->Find(&key);
  EXPECT_EQ(entry->index(), 1);
  EXPECT_EQ(entry->account, before->entries()[1]->account) << "what it has open and used up stays";
  EXPECT_EQ(entry->account->snapshot(MonotonicUs()).limits.rpm, 0);
  EXPECT_DOUBLE_EQ(entry->queue_share, 0.8);
  EXPECT_EQ(entry->blocks_max, 7);
  EXPECT_EQ(before->entries()[1]->config.limits.rpm, 5) << "who still holds the old table sees the old table";
}

TEST_F(TenantRegistryTest, ATenantThatIsGoneLosesItsFloorAndComesBackAsItself) {
  Load(Tenant("a", "key-a", R"(,"kv":{"floor_blocks":90})") + "," + Tenant("b", "key-b"));
  Write(R"({"tenants":[)" + Tenant("b", "key-b", R"(,"kv":{"floor_blocks":80})") + "]}");
  ASSERT_TRUE(registry_->Reload().ok());
  EXPECT_EQ(applied_[0].floor_blocks, 0);
  EXPECT_EQ(applied_[1].floor_blocks, 80);
  Write(R"({"tenants":[)" + Tenant("a", "key-a") + "]}");
  ASSERT_TRUE(registry_->Reload().ok());
  EXPECT_EQ(applied_.size(), 2u);
  const std::string key = "Bearer key-a";
  EXPECT_EQ(registry_->table()->Find(&key)->index(), 0);
}

TEST_F(TenantRegistryTest, ATenantThatIsGoneKeepsTheWeightOfWhatItHasLeft) {
  Load(Tenant("a", "key-a", R"(,"weight":0.1)") + "," + Tenant("b", "key-b", R"(,"weight":0.1)"));
  for (int reload = 0; reload < 2; ++reload) {
    Write(R"({"tenants":[)" + Tenant("b", "key-b", R"(,"weight":0.1)") + "]}");
    ASSERT_TRUE(registry_->Reload().ok());
    EXPECT_TRUE(applied_[0].gone);
    EXPECT_EQ(applied_[0].weight, 0.1) << "its requests go on in the turns they had";
    EXPECT_EQ(registry_->table()->gone()[0]->config.weight, 0.1) << "and so do its sessions' files";
  }
}

TEST_F(TenantRegistryTest, AReloadThatFailsChangesNothing) {
  Load(Tenant("a", "key-a"));
  const auto before = registry_->table();
  Write(R"({"tenants":[)" + Tenant("b", "key-b") + R"(,{"name":"c","weight":0}]})");
  const absl::Status status = registry_->Reload();
  EXPECT_THAT(std::string(status.message()), HasSubstr("tenants[1].weight"));
  EXPECT_EQ(registry_->table(), before);
  EXPECT_TRUE(new_names_.empty());
  EXPECT_TRUE(applied_.empty());
}

TEST_F(TenantRegistryTest, NamesAreBoundedOverTheLifeOfTheProcess) {
  Load(Tenant("first", "k"));
  for (int32_t i = 1; i < kTenantsMax; ++i) {
    Write(R"({"tenants":[{"name":"t)" + std::to_string(i) + R"("}]})");
    ASSERT_TRUE(registry_->Reload().ok()) << i;
  }
  Write(R"({"tenants":[{"name":"one-more"}]})");
  EXPECT_EQ(registry_->Reload().code(), absl::StatusCode::kResourceExhausted);
  Write(R"({"tenants":[{"name":"first"}]})");
  EXPECT_TRUE(registry_->Reload().ok());
}

TEST_F(TenantRegistryTest, TheKeysOfASingleTenantRotateInAFileOfTheirOwn) {
  Write("old\n");
  auto made = TenantRegistry::FromKeyFile(path_, Facts());
  ASSERT_TRUE(made.ok()) << made.status();
  registry_ = std::move(*made);
  EXPECT_FALSE(registry_->shared());
  const auto account = registry_->table()->entries()[0]->account;
  Write("old\nnew\n");
  ASSERT_TRUE(registry_->Reload().ok());
  EXPECT_EQ(NameOf("Bearer old"), "default");
  EXPECT_EQ(NameOf("Bearer new"), "default");
  Write("");
  EXPECT_FALSE(registry_->Reload().ok()) << "an empty file must not open the server";
  EXPECT_EQ(registry_->table()->Find(nullptr), nullptr);
  Write("new\n");
  ASSERT_TRUE(registry_->Reload().ok());
  EXPECT_EQ(NameOf("Bearer old"), "");
  EXPECT_EQ(registry_->table()->entries()[0]->account, account) << "what it has open and used up stays";
}

TEST_F(TenantRegistryTest, WithoutAFileThereIsNothingToReload) {
  TenantRegistry registry(SingleTenant(""), Facts());
  EXPECT_EQ(registry.Reload().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace hydrant
