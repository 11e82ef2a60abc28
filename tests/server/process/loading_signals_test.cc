#include "server/process/loading_signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace hydrant {
namespace {

TEST(LoadingSignalsDeathTest, WhoIsStoppedWhileLoadingEndsWell) {
  for (const int number : {SIGTERM, SIGINT}) {
    const auto stop = [number] {
      SetLoadingSignals();
      std::raise(SIGHUP);
      std::raise(number);
      std::exit(1);
    };
    EXPECT_EXIT(stop(), testing::ExitedWithCode(0), "");
  }
}

}  // namespace
}  // namespace hydrant
