// Names, slots and digests of adapters.
#include "server/adapters/adapter_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "tests/support/source_dir.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Golden(const std::string& name) { return SourceDir() + "/tests/golden/" + name; }

class AdapterRegistryTest : public testing::Test {
 protected:
  AdapterRegistryTest() {
    const auto checkpoint = Checkpoint::Open(Golden("gqa_tied"));
    EXPECT_THAT(checkpoint, IsOk());
    targets_ = AdapterTargets::Of(**checkpoint);
  }
  AdapterRegistry::Options Options(int32_t rank_max = 16) {
    return {.targets = targets_,
            .model_name = "base",
            .slots = 2,
            .rank_max = rank_max,
            .put = [this](int32_t slot, const Adapter& adapter) {
              if (before_put_) before_put_();
              puts_.emplace_back(slot, adapter.rank);
            }};
  }
  static std::string Folder(const std::string& name) { return Golden("adapters/" + name); }

  AdapterTargets targets_;
  std::function<void()> before_put_;
  std::vector<std::pair<int32_t, int32_t>> puts_;  // slot, rank
};

TEST_F(AdapterRegistryTest, GivesEachASlotUntilNobodyHasIt) {
  AdapterRegistry registry(Options());
  EXPECT_EQ(registry.Find("a"), nullptr);
  ASSERT_THAT(registry.Load("a", Folder("all")), IsOk());
  ASSERT_THAT(registry.Load("b", Folder("qv_root")), IsOk());
  EXPECT_THAT(puts_, ElementsAre(std::pair(0, 4), std::pair(1, 8)));
  EXPECT_EQ(registry.Load("c", Folder("none")).code(), absl::StatusCode::kResourceExhausted) << "nothing is read";

  auto used = registry.Find("a");
  ASSERT_NE(used, nullptr);
  EXPECT_EQ(used->slot->number, 0);
  EXPECT_TRUE(registry.Unload("a"));
  EXPECT_FALSE(registry.Unload("a"));
  EXPECT_EQ(registry.Find("a"), nullptr);
  // Somebody computes with it still.
  EXPECT_EQ(registry.Load("c", Folder("all")).code(), absl::StatusCode::kResourceExhausted);
  auto slot = used->slot;
  used.reset();
  EXPECT_EQ(registry.Load("c", Folder("all")).code(), absl::StatusCode::kResourceExhausted);
  slot.reset();
  ASSERT_THAT(registry.Load("c", Folder("patterns")), IsOk());
  EXPECT_THAT(puts_.back(), testing::Pair(0, 5));
  ASSERT_EQ(registry.List().size(), 2u);
  EXPECT_EQ(registry.List()[0]->name, "b");
}

TEST_F(AdapterRegistryTest, KnowsWhatSequencesWaitForAndRunWith) {
  AdapterRegistry registry(Options());
  ASSERT_THAT(registry.Load("b", Folder("all")), IsOk());
  ASSERT_THAT(registry.Load("a", Folder("qv_root")), IsOk());
  EXPECT_EQ(registry.demand(), AdapterRegistry::Demand());
  {
    AdapterUse first(registry.Find("b")->slot), second(registry.Find("b")->slot), third(registry.Find("a")->slot);
    EXPECT_EQ(registry.demand(), (AdapterRegistry::Demand{{}, {"a", "b"}}));
    first.Admit();
    EXPECT_EQ(registry.demand(), (AdapterRegistry::Demand{{"b"}, {"a", "b"}}));
    second.Admit();
    AdapterUse moved = std::move(second);
    EXPECT_EQ(registry.demand(), (AdapterRegistry::Demand{{"b"}, {"a"}}));
    first = AdapterUse();
    EXPECT_EQ(registry.demand(), (AdapterRegistry::Demand{{"b"}, {"a"}})) << "the one that moved runs still";
  }
  EXPECT_EQ(registry.demand(), AdapterRegistry::Demand());
}

TEST_F(AdapterRegistryTest, KnowsOfSequencesThatOutliveTheName) {
  AdapterRegistry registry(Options());
  ASSERT_THAT(registry.Load("b", Folder("all")), IsOk());
  ASSERT_THAT(registry.Load("a", Folder("qv_root")), IsOk());
  {
    AdapterUse first(registry.Find("b")->slot), second(registry.Find("a")->slot);
    first.Admit();
    EXPECT_TRUE(registry.Unload("b"));
    EXPECT_EQ(registry.demand(), (AdapterRegistry::Demand{{"b"}, {"a"}}));
    EXPECT_TRUE(registry.Unload("a"));
    EXPECT_EQ(registry.demand(), (AdapterRegistry::Demand{{"b"}, {"a"}}));
    second = AdapterUse();
    ASSERT_THAT(registry.Load("b", Folder("qv_root")), IsOk());
    AdapterUse third(registry.Find("b")->slot);
    third.Admit();
    EXPECT_EQ(registry.demand(), (AdapterRegistry::Demand{{"b"}, {}})) << "once, whatever has the name now";
  }
  EXPECT_EQ(registry.demand(), (AdapterRegistry::Demand()));
}

TEST_F(AdapterRegistryTest, NeverExchangesWhatANameStandsFor) {
  AdapterRegistry registry(Options());
  ASSERT_THAT(registry.Load("a", Folder("all")), IsOk());
  for (const char* name : {"a", "base"}) {
    const absl::Status status = registry.Load(name, Folder("qv_root"));
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << name;
  }
  EXPECT_EQ(puts_.size(), 1u);
}

TEST_F(AdapterRegistryTest, TellsFilesApartAndNotNames) {
  AdapterRegistry registry(Options()), other(Options());
  ASSERT_THAT(registry.Load("a", Folder("all")), IsOk());
  ASSERT_THAT(registry.Load("b", Folder("patterns")), IsOk());
  ASSERT_THAT(other.Load("x", Folder("all")), IsOk());
  EXPECT_EQ(registry.Find("a")->digest.size(), 16u);
  EXPECT_NE(registry.Find("a")->digest, registry.Find("b")->digest);
  EXPECT_EQ(registry.Find("a")->digest, other.Find("x")->digest);
}

TEST_F(AdapterRegistryTest, RefusesAndKeepsNoSlot) {
  AdapterRegistry registry(Options(4));
  EXPECT_THAT(std::string(registry.Load("a", Folder("qv_root")).message()), HasSubstr("rank 8"));
  EXPECT_THAT(std::string(registry.Load("a", Folder("none")).message()), HasSubstr("none"));
  for (const char* name : {"", "a b", "a,b", "a\"", "a\n"}) {
    EXPECT_THAT(std::string(registry.Load(name, Folder("all")).message()), HasSubstr("an adapter's name")) << name;
  }
  ASSERT_THAT(registry.Load("a", Folder("all")), IsOk());
  EXPECT_THAT(puts_, ElementsAre(std::pair(0, 4)));
}

TEST_F(AdapterRegistryTest, ANameIsThereOnceItsSlotIsFull) {
  AdapterRegistry registry(Options());
  before_put_ = [] { throw std::bad_alloc(); };
  EXPECT_EQ(registry.Load("a", Folder("all")).code(), absl::StatusCode::kUnavailable);
  before_put_ = [] { throw std::runtime_error("the device is lost"); };
  const absl::Status lost = registry.Load("a", Folder("all"));
  EXPECT_EQ(lost.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("the device is lost"));
  EXPECT_EQ(registry.Find("a"), nullptr);
  before_put_ = [&] { EXPECT_EQ(registry.Find("a"), nullptr); };
  ASSERT_THAT(registry.Load("a", Folder("all")), IsOk());
  EXPECT_THAT(puts_, ElementsAre(std::pair(0, 4))) << "a load that failed keeps no slot";
}

TEST(AdapterModuleTest, IsANameAndAPath) {
  AdapterModule module;
  ASSERT_THAT(ParseAdapterModule("poet=/srv/a=b", &module), IsOk());
  EXPECT_EQ(module.name, "poet");
  EXPECT_EQ(module.path, "/srv/a=b");
  for (const char* text : {"", "poet", "=x", "poet="}) EXPECT_FALSE(ParseAdapterModule(text, &module).ok()) << text;
}

}  // namespace
}  // namespace hydrant
