#include "loadgen/load/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

namespace hydrant {
namespace {

Workload Make(WorkloadSpec spec) {
  absl::StatusOr<Workload> workload = Workload::Make(std::move(spec));
  EXPECT_TRUE(workload.ok()) << workload.status();
  return *std::move(workload);
}

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

int64_t Words(const std::string& text) { return std::count(text.begin(), text.end(), ' '); }

TEST(Workload, AConversationDoesNotDependOnTheOthers) {
  const WorkloadSpec spec{.seed = 4, .input_tokens = Distribution(20), .tenants = {{.name = "a"}, {.name = "b"}}};
  const Workload one = Make(spec);
  const Workload two = Make(spec);
  for (size_t i = 10; i > 0; --i) (void)two.At(i);
  EXPECT_EQ(one.At(7).turns[0].text, two.At(7).turns[0].text);
  EXPECT_EQ(one.At(7).tenant_idx, two.At(7).tenant_idx);
  EXPECT_NE(one.At(7).turns[0].text, one.At(8).turns[0].text);
  WorkloadSpec other = spec;
  other.seed = 5;
  EXPECT_NE(one.At(7).turns[0].text, Make(other).At(7).turns[0].text);
}

TEST(Workload, RandomPromptsHaveTheLengthsAskedFor) {
  const Workload words = Make({.input_tokens = Distribution(30), .output_tokens = Distribution(9)});
  const Conversation conversation = words.At(0);
  ASSERT_EQ(conversation.turns.size(), 1u);
  EXPECT_EQ(Words(conversation.turns[0].text), 30);
  EXPECT_EQ(conversation.turns[0].input_tokens, 30);
  EXPECT_EQ(conversation.turns[0].output_tokens_max, 9);

  const Workload ids = Make({.input_tokens = Distribution(30), .prefix_tokens = 5, .token_ids = {{100, 200}}});
  const Turn turn = ids.At(3).turns[0];
  EXPECT_EQ(turn.token_ids.size(), 35u);
  EXPECT_EQ(turn.input_tokens, 35);
  EXPECT_TRUE(turn.text.empty());
  for (const int32_t id : turn.token_ids) {
    EXPECT_GE(id, 100);
    EXPECT_LT(id, 200);
  }
}

TEST(Workload, PrefixesAreShared) {
  const Workload workload = Make(
      {.dataset = Dataset::kPrefixRepetition, .input_tokens = Distribution(5), .prefix_tokens = 40, .prefixes = 3});
  std::set<std::string> prefixes;
  for (size_t i = 0; i < 60; ++i) prefixes.insert(workload.At(i).system);
  EXPECT_EQ(prefixes.size(), 3u);
  EXPECT_EQ(Words(*prefixes.begin()), 40);
}

TEST(Workload, ChatsHaveTurnsAndThinkTime) {
  const Workload workload = Make({.dataset = Dataset::kMultiTurn,
                                  .input_tokens = Distribution(5),
                                  .turns = *Distribution::Parse("uniform:2:4"),
                                  .think_s = *Distribution::Parse("exponential:3")});
  std::set<size_t> turns;
  for (size_t i = 0; i < 50; ++i) {
    const Conversation conversation = workload.At(i);
    turns.insert(conversation.turns.size());
    EXPECT_EQ(conversation.turns[0].think_s, 0);
    EXPECT_GT(conversation.turns[1].think_s, 0);
    EXPECT_NE(conversation.turns[0].text, conversation.turns[1].text);
  }
  EXPECT_EQ(turns, (std::set<size_t>{2, 3, 4}));
}

TEST(Workload, TenantsGetTheirShareOfTheLoad) {
  const Workload workload = Make(
      {.input_tokens = Distribution(1),
       .tenants = {{.name = "a", .weight = 1}, {.name = "b", .weight = 2}, {.name = "c", .weight = 1, .load = 7}}});
  int counts[3] = {0, 0, 0};
  for (size_t i = 0; i < 5000; ++i) ++counts[workload.At(i).tenant_idx];
  EXPECT_NEAR(counts[0], 500, 100);
  EXPECT_NEAR(counts[1], 1000, 150);
  EXPECT_NEAR(counts[2], 3500, 200);
}

TEST(Workload, ShareGptSaysWhatTheFileSays) {
  const std::string question(40, 'q');
  const std::string answer(80, 'a');
  const std::string path =
      WriteFile("sharegpt.json", R"([{"conversations":[{"from":"human","value":"hi"},{"from":"gpt","value":"short"}]},)"
                                 R"({"conversations":[{"from":"human","value":")" +
                                     question + R"("},{"from":"gpt","value":")" + answer +
                                     R"("},{"from":"human","value":"next"},)" + R"({"from":"gpt","value":"x"}]}])");
  const Workload workload = Make({.dataset = Dataset::kShareGpt, .path = path});
  const Conversation conversation = workload.At(0);
  ASSERT_EQ(conversation.turns.size(), 1u);
  EXPECT_EQ(conversation.turns[0].text, question) << "the other one is too short";
  EXPECT_EQ(conversation.turns[0].input_tokens, 10);
  EXPECT_EQ(conversation.turns[0].output_tokens_max, 20) << "as long as the file's answer";
  const Workload chats =
      Make({.dataset = Dataset::kShareGpt, .path = path, .output_tokens = Distribution(3), .turns = Distribution(5)});
  ASSERT_EQ(chats.At(1).turns.size(), 2u) << "no more than the file has";
  EXPECT_EQ(chats.At(1).turns[1].text, "next");
  EXPECT_EQ(chats.At(1).turns[1].output_tokens_max, 3);
}

TEST(Workload, SonnetsAreLinesOfTheFile) {
  const std::string path = WriteFile("sonnet.txt", "Shall I compare thee\nto a summer's day\n");
  const Workload workload =
      Make({.dataset = Dataset::kSonnet, .path = path, .input_tokens = Distribution(50), .prefix_tokens = 10});
  const Conversation conversation = workload.At(0);
  EXPECT_NEAR(static_cast<double>(conversation.turns[0].text.size()) / 4, 50, 6);
  EXPECT_NE(conversation.turns[0].text.find("summer"), std::string::npos);
  EXPECT_FALSE(conversation.system.empty());
  EXPECT_EQ(conversation.system, workload.At(1).system);
}

TEST(Workload, ATracesLengthsAreUsed) {
  const Workload workload = Make({.input_tokens = Distribution(1), .lengths = {{10, 20}, {30, 40}}});
  EXPECT_EQ(workload.At(0).turns[0].input_tokens, 10);
  EXPECT_EQ(workload.At(1).turns[0].output_tokens_max, 40);
  EXPECT_EQ(workload.At(2).turns[0].input_tokens, 10);
}

TEST(Workload, SaysWhichFileCannotBeUsed) {
  const absl::StatusOr<Workload> missing = Workload::Make({.dataset = Dataset::kSonnet, .path = "nowhere.txt"});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("nowhere.txt"), std::string::npos);
}

}  // namespace
}  // namespace hydrant
