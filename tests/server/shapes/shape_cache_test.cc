#include "server/shapes/shape_cache.h"

#include <gtest/gtest.h>

#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/failing_new.h"
#include "tests/server/shapes/shape_checks.h"

namespace hydrant {
namespace {

ShapeCache::Key KeyOf(int32_t tenant, const std::string& regex, const std::string& salt = "") {
  return {tenant, salt, RegexSpec(regex)};
}

TEST(ShapeCache, FindsWhatItsTenantHasCompiled) {
  ShapeCache cache(ByteVocabulary());
  EXPECT_FALSE(cache.Find(KeyOf(0, "a")).has_value());
  const auto made = std::get<0>(cache.Get(KeyOf(0, "a")));
  EXPECT_EQ(std::get<0>(*cache.Find(KeyOf(0, "a"))), made);
  EXPECT_EQ(std::get<0>(cache.Get(KeyOf(0, "a"))), made);
  // Others do not, nor do other salts.
  EXPECT_FALSE(cache.Find(KeyOf(1, "a")).has_value());
  EXPECT_FALSE(cache.Find(KeyOf(0, "a", "salt")).has_value());
  EXPECT_NE(std::get<0>(cache.Get(KeyOf(1, "a"))), made);
  const ShapeCounts counts = cache.counts();
  EXPECT_EQ(counts.compiled, 2u);
  EXPECT_EQ(counts.hits, 2u);
  EXPECT_EQ(counts.kept, 2);
  EXPECT_GT(counts.compile_seconds, 0);
}

TEST(ShapeCache, EveryPartOfASpecCounts) {
  ShapeCache cache(ByteVocabulary());
  ShapeCache::Key key = {0, "", SchemaSpec(R"({"type":"string","format":"date"})")};
  cache.Get(key);
  key.spec.white_space_max = 0;
  EXPECT_FALSE(cache.Find(key).has_value());
  key.spec.white_space_max = 8;
  key.spec.unknown_formats_pass = true;
  EXPECT_FALSE(cache.Find(key).has_value());
  key.spec.unknown_formats_pass = false;
  EXPECT_TRUE(cache.Find(key).has_value());
}

TEST(ShapeCache, IsAsItWasWhereMemoryRanOut) {
  const ShapeCache::Key key = {0, "salt", SchemaSpec(R"({"type":"object","properties":{"a":{"enum":["b",1]}}})")};
  int failures = 0;
  for (int calls = 0;; calls += 1 + calls / 20) {
    ShapeCache cache(ByteVocabulary());
    cache.Get(KeyOf(0, "a"));
    const ShapeCounts before = cache.counts();
    FailNewAfter(calls);
    try {
      const MemoryRunsOut runs_out;
      cache.Get(key);
    } catch (const std::bad_alloc&) {
      ++failures;
      EXPECT_EQ(cache.counts().kept, before.kept) << calls;
      EXPECT_EQ(cache.counts().kept_bytes, before.kept_bytes) << calls;
    }
    if (!NewFailed()) break;
    EXPECT_EQ(cache.Get(key).index(), 0u) << calls;
    EXPECT_TRUE(cache.Find(KeyOf(0, "a")).has_value()) << calls;
  }
  EXPECT_GT(failures, 50);
}

TEST(ShapeCache, RefusalsAreKept) {
  ShapeCache cache(ByteVocabulary());
  EXPECT_EQ(cache.Get(KeyOf(0, "(")).index(), 1u);
  EXPECT_EQ(cache.Get(KeyOf(0, "(")).index(), 1u);
  EXPECT_EQ(cache.counts().refused, 1u);
  EXPECT_EQ(cache.counts().hits, 1u);
}

TEST(ShapeCache, ATenantMakesRoomForItself) {
  const size_t one = std::get<0>(ShapeCache(ByteVocabulary()).Get(KeyOf(0, "a0")))->bytes() + 1024;
  ShapeCache cache(ByteVocabulary(), {.tenant_bytes_max = 3 * one, .bytes_max = 5 * one});
  cache.Get(KeyOf(1, "o0"));
  const auto in_use = std::get<0>(cache.Get(KeyOf(0, "a0")));
  for (int i = 1; i < 10; ++i) {
    cache.Get(KeyOf(0, "a" + std::to_string(i)));
    EXPECT_TRUE(i >= 3 || cache.Find(KeyOf(0, "a1")).has_value());
  }
  EXPECT_FALSE(cache.Find(KeyOf(0, "a0")).has_value()) << "used least recently";
  EXPECT_TRUE(cache.Find(KeyOf(0, "a9")).has_value());
  EXPECT_TRUE(cache.Find(KeyOf(1, "o0")).has_value()) << "of another tenant";
  EXPECT_LE(cache.counts().kept_bytes, static_cast<int64_t>(4 * one));
  grammar::GrammarState state = in_use->Begin();
  EXPECT_EQ(in_use->Advance(state, "a0"), grammar::Grammar::Verdict::kAllowed);
  // All together have a bound, too.
  for (int tenant = 2; tenant < 20; ++tenant) cache.Get(KeyOf(tenant, "b"));
  EXPECT_LE(cache.counts().kept_bytes, static_cast<int64_t>(5 * one));
}

TEST(ShapeCache, WhatNobodyAskedForGoesFirst) {
  const size_t one = std::get<0>(ShapeCache(ByteVocabulary()).Get(KeyOf(0, "a0")))->bytes() + 1024;
  ShapeCache cache(ByteVocabulary(), {.tenant_bytes_max = 3 * one});
  const auto unasked = [](int i) {
    ShapeCache::Key key = KeyOf(0, "u" + std::to_string(i));
    key.is_asked_for = false;
    return key;
  };
  cache.Get(KeyOf(0, "a0"));
  cache.Get(KeyOf(0, "a1"));
  for (int i = 0; i < 4; ++i) {
    cache.Get(unasked(i));
    EXPECT_FALSE(cache.Find(unasked(i - 1)).has_value()) << "used before";
    EXPECT_TRUE(cache.Find(unasked(i)).has_value());
  }
  EXPECT_TRUE(cache.Find(KeyOf(0, "a0")).has_value());
  EXPECT_TRUE(cache.Find(KeyOf(0, "a1")).has_value());
  EXPECT_FALSE(cache.Find(KeyOf(0, "u3")).has_value()) << "another key";
  cache.Get(KeyOf(0, "a2"));
  EXPECT_EQ(cache.Get(unasked(9)).index(), 0u);
  EXPECT_FALSE(cache.Find(unasked(9)).has_value()) << "there is no room for it";
  for (const char* asked : {"a0", "a1", "a2"}) EXPECT_TRUE(cache.Find(KeyOf(0, asked)).has_value()) << asked;
}

TEST(ShapeCache, GrowthIsCharged) {
  ShapeCache cache(ByteVocabulary());
  const ShapeCache::Key key = {0, "", SchemaSpec("{}")};
  const auto shape = std::get<0>(cache.Get(key));
  const int64_t before = cache.counts().kept_bytes;
  grammar::GrammarState state = shape->Begin();
  std::vector<uint32_t> bits(shape->vocabulary().words());
  for (const char* next : {"{", "\"", "a", "\"", ":", "[", "1", ","}) {
    ASSERT_EQ(shape->Advance(state, next), grammar::Grammar::Verdict::kAllowed);
    shape->Mask(state, bits);
  }
  cache.Find(key);
  EXPECT_GT(cache.counts().kept_bytes, before);
}

TEST(ShapeCache, TheSameInFlightTwiceIsCompiledOnce) {
  ShapeCache cache(ByteVocabulary());
  std::string properties;
  for (int i = 0; i < 500; ++i)
    properties += std::string(i == 0 ? "" : ",") + "\"p" + std::to_string(i) +
                  "\":{\"type\":\"string\",\"format\":\"date-time\"}";
  const ShapeCache::Key key = {0, "", SchemaSpec("{\"properties\":{" + properties + "}}")};
  std::vector<std::shared_ptr<CompiledShape>> made(6);
  std::vector<std::thread> threads;
  for (auto& each : made) threads.emplace_back([&cache, &key, &each] { each = std::get<0>(cache.Get(key)); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : made) EXPECT_EQ(each, made[0]);
  EXPECT_EQ(cache.counts().compiled, 1u);
  EXPECT_EQ(cache.counts().hits, 5u);
}

}  // namespace
}  // namespace hydrant
