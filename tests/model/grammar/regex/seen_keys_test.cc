#include "model/grammar/regex/seen_keys.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace hydrant::grammar {
namespace {

// Beside plain sets: chance, keys whose hashes part late, and what is taken back.
TEST(SeenKeys, AreSetsThatShareWhatTheyHave) {
  SeenKeys seen;
  std::mt19937_64 random(7);
  std::vector<std::pair<int32_t, std::set<uint64_t>>> made = {{SeenKeys::kNone, {}}};
  const auto key_of = [](uint64_t draw) { return (draw & 1) != 0 ? draw >> 8 << 60 : draw >> 8 & 0xfff; };
  size_t kept = 0;
  for (int i = 0; i < 3000; ++i) {
    const size_t from = std::max<size_t>(made.size(), 40) - 40 + random() % std::min<size_t>(made.size(), 40);
    const uint64_t key = key_of(random());
    ASSERT_EQ(seen.Has(made[from].first, key), made[from].second.contains(key));
    if (!made[from].second.contains(key)) {
      const int32_t set = seen.With(made[from].first, key);
      EXPECT_EQ(seen.With(made[from].first, key), set);
      EXPECT_EQ(seen.rest(set), made[from].first);
      EXPECT_EQ(seen.key(set), key);
      if (static_cast<size_t>(set) + 2 > made.size()) {
        made.emplace_back(set, made[from].second).second.insert(key);
      }
    }
    if (i % 500 == 200) kept = seen.size();
    if (i % 500 == 230) {
      seen.BackTo(kept);
      made.resize(kept + 1);
    }
  }
  for (const auto& [set, keys] : made) {
    for (const uint64_t key : made.back().second) ASSERT_EQ(seen.Has(set, key), keys.contains(key));
    for (const uint64_t key : keys) ASSERT_TRUE(seen.Has(set, key));
  }
}

}  // namespace
}  // namespace hydrant::grammar
