#include "server/frontend/request_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/stub_engine.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RecordingQueue : public StubEngine {
 public:
  void Cancel(std::list<IdRange> ids) noexcept override {
    for (const IdRange& range : ids) {
      for (uint64_t i = 0; i < range.count; ++i) cancelled.push_back(range.first + i);
    }
  }

  std::vector<uint64_t> cancelled;
};

TEST(RequestDirectory, RequestsAreFoundByEachOfTheirNames) {
  RequestDirectory directory;
  RecordingQueue queue;
  const RequestDirectory::Entry a(directory, {"cmpl-a", "a"}, 0, 10, 2);
  const RequestDirectory::Entry b(directory, {"resp_b", "b", "mine"}, 0, 20, 1);
  EXPECT_EQ(directory.Abort({.ids = {"cmpl-a", "mine", "a", "absent"}, .tenant = {}}, queue), 2);
  EXPECT_THAT(queue.cancelled, ElementsAre(10, 11, 20));
  const RequestDirectory::Entry c(directory, {"cmpl-c", ""}, 0, 30, 1);
  EXPECT_EQ(directory.Abort({.ids = {""}, .tenant = {}}, queue), 0) << "nobody is called nothing";
}

TEST(RequestDirectory, ATenantsRequestsAreItsOwn) {
  RequestDirectory directory;
  RecordingQueue queue;
  const RequestDirectory::Entry a(directory, {"cmpl-same", "same"}, 0, 10, 1);
  const RequestDirectory::Entry b(directory, {"cmpl-same", "same"}, 1, 20, 1);
  const RequestDirectory::Entry c(directory, {"cmpl-other"}, 1, 30, 1);
  EXPECT_EQ(directory.Abort({.ids = {"same"}, .tenant = 1}, queue), 1);
  EXPECT_THAT(queue.cancelled, ElementsAre(20));
  EXPECT_EQ(directory.Abort({.ids = {}, .tenant = 1}, queue), 1) << "one of the two is gone already";
  EXPECT_THAT(queue.cancelled, ElementsAre(20, 30));
}

TEST(RequestDirectory, WhatHasEndedIsNotThere) {
  RequestDirectory directory;
  RecordingQueue queue;
  { const RequestDirectory::Entry a(directory, {"cmpl-a"}, 0, 10, 1); }
  EXPECT_EQ(directory.Abort({.ids = {"cmpl-a"}, .tenant = {}}, queue), 0);
  EXPECT_THAT(queue.cancelled, IsEmpty());
}

}  // namespace
}  // namespace hydrant
