#include "api/wire/nearest_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrant {
namespace {

const std::vector<std::string> kNames = {"--host",          "--port",      "--max-num-seqs",
                                         "--max-model-len", "--kv-budget", "serve"};

TEST(NearestName, FindsWhatWasMeant) {
  const struct {
    const char* typed;
    const char* meant;
  } cases[] = {
      {"--max-num-seq", "--max-num-seqs"},    // a character is missing
      {"--max-num-seqss", "--max-num-seqs"},  // one too many
      {"--max-mun-seqs", "--max-num-seqs"},   // two are swapped
      {"--kv-bugdet", "--kv-budget"},
      {"--prot", "--port"},
      {"--max-model", "--max-model-len"},  // not finished
      {"sevre", "serve"},
      {"Serve", "serve"},
      {"--port", "--port"},
  };
  for (const auto& test : cases) EXPECT_EQ(NearestName(test.typed, kNames), test.meant) << test.typed;
}

TEST(NearestName, IsEmptyWhenNothingIsNear) {
  for (const char* typed : {"", "x", "--tensor-parallel-size", "model.gguf", "--m"}) {
    EXPECT_EQ(NearestName(typed, kNames), "") << typed;
  }
  EXPECT_EQ(NearestName("--port", {}), "");
  EXPECT_EQ(NearestName(std::string(1'000'000, 'x'), kNames), "");
}

TEST(NearestName, TheFirstOfEqualsWins) {
  const std::vector<std::string> names = {"--abcd", "--abce"};
  EXPECT_EQ(NearestName("--abcx", names), "--abcd");
}

TEST(UnknownFlag, NamesTheFirstOneAndNeverAValue) {
  const auto message = [](const std::vector<std::string>& arguments) {
    return UnknownFlag(arguments, kNames, "tool --help");
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({"serve", "-x", "model", "--port=5", "--host", "h"}), "");
  EXPECT_EQ(message({"--prot=5", "--hots", "h"}), "--prot: did you mean --port?");
  EXPECT_EQ(message({"--no-such-flag=secret"}), "--no-such-flag: there is no such flag; tool --help lists them");
  EXPECT_EQ(message({"--", "--prot"}), "");
  const FlagAdvice advices[] = {{"--prot", "drink water"}, {"--host", "never said: there is such a flag"}};
  EXPECT_EQ(UnknownFlag(std::vector<std::string>{"--host=h", "--prot=5"}, kNames, "tool --help", advices),
            "--prot: there is no such flag; drink water");
}

}  // namespace
}  // namespace hydrant
