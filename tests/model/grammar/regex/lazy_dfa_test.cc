#include "model/grammar/regex/lazy_dfa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "model/grammar/regex/char_class.h"

namespace hydrant::grammar {
namespace {

using testing::ElementsAre;
using testing::Eq;
using testing::Optional;

// The oracle: a language as the set of its texts over {a, b} of at most 5 bytes, with every operation by definition.
constexpr size_t kLongest = 5;
std::vector<std::string> AllShortTexts() {
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == kLongest) break;
    texts.push_back(texts[i] + "a");
    texts.push_back(texts[i] + "b");
  }
  return texts;
}
using Language = std::set<std::string>;
Language Joined2(const Language& a, const Language& b) {
  Language both;
  for (const std::string& x : a) {
    for (const std::string& y : b) {
      if (x.size() + y.size() <= kLongest) both.insert(x + y);
    }
  }
  return both;
}

struct Pair {
  RegexId id;
  Language texts;
};

// A random expression of so many operations, built the same way twice.
Pair RandomPair(LazyDfa& dfa, std::mt19937& random, int operations, const std::vector<std::string>& all) {
  RegexArena& arena = dfa.arena();
  std::vector<Pair> pool = {{arena.Byte('a'), {"a"}},
                            {arena.Byte('b'), {"b"}},
                            {arena.Bytes(ByteSet::Range('a', 'b')), {"a", "b"}},
                            {arena.Strings({"ab", "abb", "b"}, 3), {"ab", "abb", "b"}},
                            {kEmptyText, {""}}};
  const auto any = [&]() -> const Pair& { return pool[random() % pool.size()]; };
  const RegexId universe = arena.Star(arena.Bytes(ByteSet::Range('a', 'b')));
  for (int i = 0; i < operations; ++i) {
    const Pair x = i > 2 ? pool.back() : any(), y = any();
    Pair made;
    switch (random() % 6) {
      case 0:
        made = {arena.Or({x.id, y.id}), x.texts};
        made.texts.insert(y.texts.begin(), y.texts.end());
        break;
      case 1: {
        made.id = arena.And({x.id, y.id});
        std::ranges::set_intersection(x.texts, y.texts, std::inserter(made.texts, made.texts.end()));
        break;
      }
      case 2: {
        made.id = arena.And({arena.Not(x.id), universe});
        for (const std::string& text : all) {
          if (!x.texts.contains(text)) made.texts.insert(text);
        }
        break;
      }
      case 3: {
        const int least = static_cast<int>(random() % 3), more = static_cast<int>(random() % 4);
        made = {arena.Repeat(x.id, least, more == 3 ? kUnbounded : least + more), {}};
        Language power = {""};
        for (size_t count = 0; count <= (more == 3 ? kLongest + 2 : static_cast<size_t>(least + more)); ++count) {
          if (count >= static_cast<size_t>(least)) made.texts.insert(power.begin(), power.end());
          power = Joined2(power, x.texts);
        }
        break;
      }
      default:
        made = random() % 2 == 0 ? Pair{arena.Concat(x.id, y.id), Joined2(x.texts, y.texts)}
                                 : Pair{arena.Concat(y.id, x.id), Joined2(y.texts, x.texts)};
    }
    pool.push_back(std::move(made));
  }
  return pool.back();
}

TEST(LazyDfa, AgreesWithSetsOfTexts) {
  std::mt19937 random(26);
  const std::vector<std::string> all = AllShortTexts();
  for (int round = 0; round < 400; ++round) {
    LazyDfa dfa;
    const auto [id, texts] = RandomPair(dfa, random, 1 + round % 9, all);
    Fuel fuel;
    for (const std::string& text : all) {
      ASSERT_EQ(dfa.Matches(id, text, fuel), texts.contains(text)) << "round " << round << " '" << text << "'";
    }
    const auto shortest = dfa.Shortest(id, fuel);
    ASSERT_FALSE(fuel.empty());
    if (!texts.empty()) {
      const auto least = std::ranges::min(texts, {}, &std::string::size).size();
      ASSERT_TRUE(shortest.has_value()) << "round " << round;
      ASSERT_EQ(shortest->size(), least) << "round " << round;
      ASSERT_FALSE(dfa.IsEmpty(id, fuel));
    } else {
      ASSERT_TRUE(!shortest || shortest->size() > kLongest) << "round " << round;
      ASSERT_EQ(dfa.IsEmpty(id, fuel), !shortest);
    }
  }
}

TEST(LazyDfa, EveryStateButNothingLeadsToAText) {
  LazyDfa dfa;
  RegexArena& arena = dfa.arena();
  // "aa" or "ab", but not "ab": behind "a" only an "a" may follow.
  const RegexId any = arena.Bytes(ByteSet::Range('a', 'b'));
  const RegexId id = arena.And({arena.Concat(arena.Byte('a'), any), arena.Not(arena.Literal("ab"))});
  Fuel fuel;
  const RegexId after = dfa.Step(id, 'a', fuel);
  EXPECT_EQ(dfa.Step(after, 'b', fuel), kNothing);
  EXPECT_NE(dfa.Step(after, 'a', fuel), kNothing);
  EXPECT_EQ(dfa.Step(id, 'b', fuel), kNothing);
}

TEST(LazyDfa, CountersCostWhatIsReadAndNotWhatTheyCount) {
  LazyDfa dfa;
  RegexArena& arena = dfa.arena();
  const RegexId million = arena.Repeat(arena.Bytes(ByteSet::Range('a', 'z')), 1, 1'000'000);
  const RegexId both = arena.And({million, arena.Not(arena.Literal("abc"))});
  Fuel fuel{20'000};
  EXPECT_TRUE(dfa.Matches(both, "abcd", fuel));
  EXPECT_FALSE(dfa.Matches(both, "abc", fuel));
  EXPECT_FALSE(dfa.Matches(both, "", fuel));
  EXPECT_FALSE(fuel.empty());
  EXPECT_LT(arena.size(), 100u);
}

TEST(LazyDfa, TwoCountersOfTheSameTextAreOne) {
  LazyDfa dfa;
  RegexArena& arena = dfa.arena();
  const RegexId x = arena.Byte('x');
  const RegexId id = arena.Concat(arena.Repeat(x, 1, 500), arena.Repeat(x, 1, 500));
  Fuel fuel;
  EXPECT_TRUE(dfa.Matches(id, std::string(1000, 'x'), fuel));
  EXPECT_FALSE(dfa.Matches(id, std::string(1001, 'x'), fuel));
  EXPECT_LT(arena.size(), 5'000u);
}

TEST(LazyDfa, MultiplesAreCountedInDigits) {
  LazyDfa dfa;
  Fuel fuel;
  for (const int of : {1, 2, 7, 12, 99991}) {
    const RegexId id = dfa.arena().Multiple(of, 0);
    for (int number = 0; number < 300; ++number) {
      ASSERT_EQ(dfa.Matches(id, std::to_string(number), fuel), number % of == 0) << number << " of " << of;
    }
    EXPECT_TRUE(dfa.Matches(id, std::to_string(99991LL * of), fuel));
    EXPECT_FALSE(dfa.Matches(id, "00", fuel));
    EXPECT_FALSE(dfa.Matches(id, "", fuel));
  }
  const RegexId quarters = dfa.arena().Multiple(25, 2);
  for (const char* yes : {"0", "1", "0.25", "3.5", "3.50", "10.75", "0.0", "0.00"})
    EXPECT_TRUE(dfa.Matches(quarters, yes, fuel)) << yes;
  for (const char* no : {"0.1", "0.26", "1.", "3.", "0.250", "01", ".5"})
    EXPECT_FALSE(dfa.Matches(quarters, no, fuel)) << no;
  // 0.1 and 0.6 lead nowhere.
  EXPECT_EQ(dfa.StepAll(quarters, "0.1", fuel), kNothing);
}

TEST(LazyDfa, ListsAllTextsOfAFiniteExpression) {
  LazyDfa dfa;
  RegexArena& arena = dfa.arena();
  Fuel fuel;
  const RegexId two = arena.Concat(arena.Bytes(ByteSet::Range('a', 'b')), arena.Repeat(arena.Byte('c'), 0, 1));
  EXPECT_THAT(dfa.AllTexts(two, 4, fuel), Optional(ElementsAre("a", "b", "ac", "bc")));
  EXPECT_EQ(dfa.AllTexts(two, 3, fuel), std::nullopt);
  EXPECT_EQ(dfa.AllTexts(arena.Star(arena.Byte('c')), 100, fuel), std::nullopt);
  EXPECT_THAT(dfa.AllTexts(kNothing, 1, fuel), Optional(ElementsAre()));
}

TEST(LazyDfa, EndsWhereFuelDoes) {
  LazyDfa dfa;
  RegexArena& arena = dfa.arena();
  // The intersection of these is empty, and to see it takes the least common multiple of their lengths.
  std::vector<RegexId> parts = {arena.Repeat(arena.Byte('x'), 1, kUnbounded)};
  for (const int period : {7, 11, 13, 17, 19}) {
    const RegexId loop = arena.Star(arena.Repeat(arena.Byte('x'), period, period));
    parts.push_back(period == 19 ? arena.Concat(loop, arena.Byte('y')) : loop);
  }
  Fuel fuel{100'000};
  const RegexId id = arena.And(parts);
  EXPECT_FALSE(dfa.IsEmpty(id, fuel));
  EXPECT_TRUE(fuel.empty());
}

TEST(LazyDfa, ImportsWhatACopyMade) {
  LazyDfa base;
  RegexArena& arena = base.arena();
  const RegexId root =
      arena.And({arena.Repeat(arena.Bytes(ByteSet::Range('a', 'c')), 2, 900),
                 arena.Not(arena.Concat(arena.Strings({"aa", "abba"}, 3), arena.Star(arena.Byte('b'))))});
  const auto shared = static_cast<RegexId>(arena.size());
  LazyDfa one = base, two = base;
  Fuel fuel;
  const RegexId state = one.StepAll(root, "abb", fuel);
  ASSERT_GE(state, shared);
  const RegexId copy = two.Import(one.arena(), state, shared);
  EXPECT_EQ(copy, two.StepAll(root, "abb", fuel));
  EXPECT_FALSE(two.Matches(copy, "a", fuel));
  EXPECT_TRUE(two.Matches(copy, "ac", fuel));
}

// Two copies each make a set of bytes as they go; the first of either is not the same.
TEST(LazyDfa, ImportsASetOfBytesThatACopyMade) {
  LazyDfa base;
  RegexArena& arena = base.arena();
  const auto then = [&](char first, char last, char a, char b) {
    return arena.Concat(arena.Bytes(ByteSet::Range(first, last)), arena.Bytes(ByteSet::Range(a, b)));
  };
  const RegexId root = arena.Or({then('x', 'x', 'a', 'c'), then('y', 'y', '0', '1'), then('x', 'y', 'p', 'q')});
  const auto shared = static_cast<RegexId>(arena.size());
  LazyDfa one = base, two = base;
  Fuel fuel;
  const RegexId state = one.StepAll(root, "x", fuel);
  ASSERT_GE(state, shared);
  ASSERT_GE(two.StepAll(root, "y", fuel), shared);
  const RegexId copy = two.Import(one.arena(), state, shared);
  for (const char* text : {"a", "c", "p", "q"}) EXPECT_TRUE(two.Matches(copy, text, fuel)) << text;
  for (const char* text : {"d", "0", "x", ""}) EXPECT_FALSE(two.Matches(copy, text, fuel)) << text;
}

}  // namespace
}  // namespace hydrant::grammar
