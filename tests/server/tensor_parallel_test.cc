#include "server/tensor_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/server.h"
#include "tests/server/test_server.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using nlohmann::json;

ModelConfig EightHeads() {
  ModelConfig model;
  model.hidden = 64;
  model.ffn = 128;
  model.vocab = 300;
  model.query_heads = 16;
  model.kv_heads = 8;
  return model;
}

std::string WhyNot(int32_t ranks, const ModelConfig& model) { return std::string(CheckRanks(ranks, model).message()); }

TEST(CheckRanks, WhatCannotBeDividedIsRefusedByName) {
  for (const int32_t ranks : {1, 2, 4, 8}) EXPECT_TRUE(CheckRanks(ranks, EightHeads()).ok()) << ranks;
  EXPECT_EQ(WhyNot(3, EightHeads()),
            "--tensor-parallel-size 3: each rank has as many of the model's 8 KV heads; it can be 1, 2, 4 or 8");
  EXPECT_EQ(CheckRanks(16, EightHeads()).code(), absl::StatusCode::kInvalidArgument);
  ModelConfig model = EightHeads();
  model.kv_heads = 1;
  EXPECT_THAT(WhyNot(2, model), testing::EndsWith("1 KV heads; it can be 1"));
  model = EightHeads();
  model.experts = 4;
  EXPECT_THAT(WhyNot(2, model), testing::HasSubstr("experts"));
  EXPECT_TRUE(CheckRanks(1, model).ok());
  model = EightHeads();
  model.norms_over_heads = true;
  EXPECT_THAT(WhyNot(2, model), testing::HasSubstr("norms over all heads"));
  model = EightHeads();
  model.ffn = 3;
  EXPECT_THAT(WhyNot(4, model), testing::HasSubstr("3 rows"));
}

TEST(OpenRanks, TheyTakeThePlaceOfTheProcessorAlone) {
  Config config;
  config.ranks = 2;
  config.threads = 2;
  absl::StatusOr<OpenedDevice> opened = OpenRanks(*OpenDevice("cpu", 2, false), config);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(opened->device->name(), testing::StartsWith("2 ranks of cpu "));
  OpenedDevice gpu = *OpenDevice("cpu", 2, false);
  gpu.memory_bytes = 1 << 30;
  opened = OpenRanks(std::move(gpu), config);
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(opened.status().message()), testing::StartsWith("--tensor-parallel-size 2: several GPUs"));
}

// Starts a server of `ranks` ranks, asks it, and ends it.
void ServeOnRanks(int32_t ranks, const std::string& directory, const std::function<void(uint16_t port)>& ask) {
  Config config;
  config.model_path = std::string(HYDRANT_SOURCE_DIR) + "/tests/golden/gqa_tied";
  config.port = 0;
  config.threads = 2;
  config.ranks = ranks;
  config.blocks_override = 64;
  config.log_level = LogLevel::kError;
  config.session_dir = directory;
  config.session_dir_unsafe = true;  // tests may run in a container's own layer
  std::thread client;
  const int exit_code = Serve(config, [&](const std::string& line) {
    ASSERT_TRUE(line.starts_with("listening on ")) << line;
    client = std::thread(
        [&ask, port = static_cast<uint16_t>(std::atoi(line.c_str() + line.rfind(':', line.find(" (")) + 1))] {
          ask(port);
          kill(getpid(), SIGTERM);
        });
  });
  client.join();
  EXPECT_EQ(exit_code, kExitOk);
}

struct RankedTurn {
  std::vector<int32_t> tokens;
  bool resumed = false;
};

// The next turn of a chat with an H2O budget.
RankedTurn Say(uint16_t port, std::vector<int32_t>* history) {
  for (int32_t i = 0; i < 60; ++i) history->push_back(2 + static_cast<int32_t>(history->size() * 37 % 280));
  const json request = {{"prompt", *history},
                        {"max_tokens", 30},
                        {"temperature", 0},
                        {"ignore_eos", true},
                        {"session_id", "on-ranks"},
                        {"return_token_ids", true},
                        {"kv", {{"policy", "h2o"}, {"budget", 40}}}};
  const RawClient::Response response = RawClient(port).Ask(CompletionPost(request.dump()));
  EXPECT_EQ(response.status, 200) << response.body;
  const json answer = json::parse(response.body, nullptr, false);
  RankedTurn turn;
  if (response.status != 200) return turn;
  turn.tokens = answer.at("choices").at(0).at("token_ids").get<std::vector<int32_t>>();
  turn.resumed = answer.at("hydrant").at("resumed").get<bool>();
  history->insert(history->end(), turn.tokens.begin(), turn.tokens.end());
  return turn;
}

// A chat whose turns are answered by servers of these numbers of ranks, one after the other on one --session-dir.
std::vector<RankedTurn> ChatOn(const std::vector<int32_t>& ranks_of_turns) {
  const TempDir dir;
  std::vector<RankedTurn> turns;
  std::vector<int32_t> history;
  for (const int32_t ranks : ranks_of_turns) {
    ServeOnRanks(ranks, dir.path(), [&](uint16_t port) {
      turns.push_back(Say(port, &history));
      EXPECT_THAT(RawClient(port).Ask(Get("/server_info")).body,
                  testing::HasSubstr("\"tp_size\":" + std::to_string(ranks)));
    });
  }
  return turns;
}

// KV in files included: a server of two ranks goes on from what one rank has written, and the other way round.
TEST(Ranks, AnswerAsOneDoesAndShareItsSessions) {
  const std::vector<RankedTurn> one = ChatOn({1, 1, 1});
  for (const std::vector<int32_t>& ranks : {std::vector<int32_t>{2, 1, 2}, {1, 2, 2}}) {
    const std::vector<RankedTurn> turns = ChatOn(ranks);
    ASSERT_EQ(turns.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(turns[i].tokens, one[i].tokens) << "turn " << i + 1;
      EXPECT_EQ(turns[i].tokens.size(), 30u);
      EXPECT_EQ(turns[i].resumed, i > 0);
      EXPECT_EQ(one[i].resumed, i > 0);
    }
  }
}

TEST(Ranks, AModelThatCannotBeDividedIsNotServed) {
  Config config;
  config.model_path = std::string(HYDRANT_SOURCE_DIR) + "/tests/golden/mha_tied";
  config.port = 0;
  config.ranks = 2;
  config.log_level = LogLevel::kError;
  std::vector<std::string> lines;
  EXPECT_EQ(Serve(config,
                  [&](const std::string& line) {
                    lines.push_back(line);
                    if (line.starts_with("listening")) kill(getpid(), SIGTERM);  // it should not have come to that
                  }),
            kExitUsage);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines.front(),
              testing::HasSubstr("--tensor-parallel-size 2: each rank has as many of the model's 3 KV heads"));
}

}  // namespace
}  // namespace hydrant
