#include "loadgen/client/name_lookup.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "loadgen/client/connection.h"

namespace hydrant {
namespace {

const Endpoints kLoopback = {{boost::asio::ip::address_v4::loopback(), 7}};

// A lookup that answers only when it is told to, as one does whose name server is silent.
class SilentLookup {
 public:
  ~SilentLookup() {
    if (!answered_) Answer();
  }

  NameLookup lookup() {
    return [permission = permission_, ended = ended_](const std::string&, uint16_t) -> absl::StatusOr<Endpoints> {
      permission.wait();
      ended->set_value();
      return kLoopback;
    };
  }

  void Answer() {
    answered_ = true;
    answer_.set_value();
  }
  void WaitForItsEnd() { ended_->get_future().wait(); }

 private:
  std::promise<void> answer_;
  std::shared_future<void> permission_ = answer_.get_future().share();
  std::shared_ptr<std::promise<void>> ended_ = std::make_shared<std::promise<void>>();
  bool answered_ = false;
};

TEST(NameLookup, AnAnswerInTimeIsTaken) {
  const auto lookup = [](const std::string& host, uint16_t port) -> absl::StatusOr<Endpoints> {
    EXPECT_EQ(host, "h");
    EXPECT_EQ(port, 7);
    return kLoopback;
  };
  EXPECT_EQ(*LookupWithin(lookup, "h", 7, 60), kLoopback);
}

TEST(NameLookup, AnErrorInTimeIsTaken) {
  const auto lookup = [](const std::string&, uint16_t) -> absl::StatusOr<Endpoints> {
    return absl::UnavailableError("Host not found");
  };
  EXPECT_EQ(LookupWithin(lookup, "h", 7, 60).status(), absl::UnavailableError("Host not found"));
}

TEST(NameLookup, ALateAnswerIsDropped) {
  SilentLookup silent;
  EXPECT_EQ(LookupWithin(silent.lookup(), "h", 7, 0.02).status().code(), absl::StatusCode::kDeadlineExceeded);
  silent.Answer();
  silent.WaitForItsEnd();
}

TEST(NameLookup, TheSystemKnowsAddresses) {
  const absl::StatusOr<Endpoints> found = SystemLookup("127.0.0.1", 7);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, kLoopback);
}

TEST(ResolvePeer, EndsAtItsDeadlineWhateverTheNameServerDoes) {
  SilentLookup silent;
  const absl::StatusOr<Peer> peer = ResolvePeer(*ParseUrl("http://h:7"), true, 0.02, silent.lookup());
  EXPECT_EQ(peer.status(), absl::DeadlineExceededError("http://h:7: the name was not found in time"));
}

}  // namespace
}  // namespace hydrant
