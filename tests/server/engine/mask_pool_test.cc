#include "server/engine/mask_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "tests/engine/scripted_shape.h"

namespace hydrant {
namespace {

constexpr int32_t kMaskedVocab = 100;

std::shared_ptr<AnswerMask> MaskOf(ScriptedShape::Script script) {
  script.vocab = kMaskedVocab;
  return std::make_shared<AnswerMask>(std::make_shared<ScriptedShape>(std::move(script)), kMaskedVocab);
}

TEST(MaskPool, HasAtLeastOneWorkerAndAtMostFour) {
  EXPECT_EQ(MaskPool::WorkersFor(1), 1);
  EXPECT_EQ(MaskPool::WorkersFor(2), 1);
  EXPECT_EQ(MaskPool::WorkersFor(6), 3);
  EXPECT_EQ(MaskPool::WorkersFor(64), 4);
}

// As the engine does it: a token, and while the next mask is computed nothing of the shape is touched.
TEST(MaskPool, MasksFollowTheTokens) {
  for (const int32_t workers : {1, 3}) {
    MaskPool pool(workers);
    std::vector<std::shared_ptr<AnswerMask>> masks;
    for (uint64_t key = 0; key < 8; ++key) masks.push_back(MaskOf({.key = key, .choices = 3}));
    for (int32_t token = 0; token < 200; ++token) {
      for (const auto& mask : masks) mask->Ask();
      pool.Run(masks);
      for (const auto& mask : masks) {
        ASSERT_EQ(mask->Take(), AnswerMask::State::kThere);
        auto& shape = static_cast<ScriptedShape&>(mask->shape());
        std::vector<uint32_t> expected((kMaskedVocab + 31) / 32);
        for (const int32_t id : shape.AllowedAfter(shape.pushed)) {
          expected[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
        }
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), mask->bits().begin(), mask->bits().end())) << token;
        mask->shape().Push(shape.AllowedAfter(shape.pushed)[0]);
      }
    }
  }
}

TEST(MaskPool, SaysWhyThereIsNone) {
  MaskPool pool(1);
  const std::vector<std::shared_ptr<AnswerMask>> masks = {MaskOf({.limit_after = 0}), MaskOf({.no_memory_after = 0}),
                                                          MaskOf({.nothing_after = 0})};
  for (const auto& mask : masks) mask->Ask();
  pool.Run(masks);
  EXPECT_EQ(masks[0]->Take(), AnswerMask::State::kLimit);
  EXPECT_EQ(masks[1]->Take(), AnswerMask::State::kNoMemory);
  EXPECT_EQ(masks[2]->Take(), AnswerMask::State::kThere) << "an empty mask is one";
}

// An abandoned mask is not computed if nobody has begun, and whoever has begun goes on with what is still there.
TEST(MaskPool, NobodyWaitsForAnAbandonedMask) {
  std::atomic<int> begun = 0;
  std::atomic<bool> goes_on = false;
  std::weak_ptr<AnswerMask> first;
  {
    MaskPool pool(1);
    std::vector<std::shared_ptr<AnswerMask>> masks;
    for (int i = 0; i < 3; ++i) {
      masks.push_back(MaskOf({.before_mask = [&] {
        ++begun;
        begun.notify_all();
        goes_on.wait(false);
      }}));
      masks.back()->Ask();
    }
    first = masks[0];
    pool.Run(masks);
    begun.wait(0);
    for (const auto& mask : masks) mask->Abandon();
    masks.clear();
    EXPECT_FALSE(first.expired());
    goes_on = true;
    goes_on.notify_all();
    const auto last = MaskOf({});
    last->Ask();
    pool.Run({&last, 1});
    EXPECT_EQ(last->Take(), AnswerMask::State::kThere);
    EXPECT_EQ(begun, 1);
  }
  EXPECT_TRUE(first.expired());
}

// What is left in the queue goes with the pool.
TEST(MaskPool, EndsWithMasksThatNobodyWaitsFor) {
  std::vector<std::shared_ptr<AnswerMask>> masks;
  for (int i = 0; i < 50; ++i) {
    masks.push_back(MaskOf({}));
    masks.back()->Ask();
  }
  MaskPool pool(2);
  pool.Run(masks);
}

}  // namespace
}  // namespace hydrant
