#include "server/server.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/test_server.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

const std::string kModel = std::string(HYDRANT_SOURCE_DIR) + "/tests/golden/gqa_tied";

Config SmallConfig(const std::string& model = kModel) {
  Config config;
  config.model_path = model;
  config.port = 0;
  config.threads = 1;
  config.sequences_max = 8;
  config.batch_tokens_max = 64;
  config.blocks_override = 64;
  config.log_level = LogLevel::kError;
  return config;
}

struct Failure {
  int exit_code = -1;
  std::vector<std::string> lines;
};

Failure ServeInVain(const Config& config) {
  Failure failure;
  failure.exit_code = Serve(config, [&](const std::string& line) {
    failure.lines.push_back(line);
    if (line.starts_with("listening")) kill(getpid(), SIGTERM);  // it should not have come to that
  });
  return failure;
}

uint16_t PortIn(const std::string& line) {
  return static_cast<uint16_t>(std::atoi(line.c_str() + line.rfind(':') + 1));
}

TEST(Server, ServesAModelUntilSigtermAndExitsWith0) {
  std::thread client;
  Config config = SmallConfig();
  config.served_model_name = "tiny";
  const int exit_code = Serve(config, [&](const std::string& line) {
    ASSERT_TRUE(line.starts_with("listening on http://127.0.0.1:")) << line;
    client = std::thread([port = PortIn(line)] {
      const std::string body =
          RawClient(port)
              .Ask(CompletionPost(R"({"model":"tiny","prompt":[5,6,7],"max_tokens":4,"ignore_eos":true})"))
              .body;
      EXPECT_NE(body.find(R"("completion_tokens":4)"), std::string::npos) << body;
      kill(getpid(), SIGTERM);
    });
  });
  client.join();
  EXPECT_EQ(exit_code, kExitOk);
}

// One stream of objects, the line that says why it does not come to serving among them.
TEST(Server, WithJsonLinesNothingIsAnnouncedBesideTheLog) {
  Config config = SmallConfig("/nowhere");
  config.log_format = LogFormat::kJson;
  testing::internal::CaptureStderr();
  const Failure failure = ServeInVain(config);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(failure.exit_code, kExitOk);
  EXPECT_TRUE(failure.lines.empty());
  EXPECT_TRUE(log.starts_with("{\"time\":") && log.ends_with("}\n")) << log;
  EXPECT_NE(log.find("/nowhere"), std::string::npos) << log;
}

TEST(Server, Float16IsAFormatLikeTheOthers) {
  Config config = SmallConfig();
  config.weight_dtype = DType::kF16;
  config.kv_type = KvType::kF16;
  std::thread client;
  const int exit_code = Serve(config, [&](const std::string& line) {
    ASSERT_TRUE(line.starts_with("listening on ")) << line;
    client = std::thread([port = PortIn(line)] {
      const RawClient::Response response =
          RawClient(port).Ask(CompletionPost(R"({"prompt":[5,6,7],"max_tokens":20,"kv":{"policy":"h2o","budget":8}})"));
      EXPECT_EQ(response.status, 200) << response.body;
      kill(getpid(), SIGTERM);
    });
  });
  client.join();
  EXPECT_EQ(exit_code, kExitOk);
}

TEST(Server, AModelThatIsNoneIsExit78AndOneLineThatNamesTheFile) {
  const TempDir dir;
  const struct {
    std::string path;
    const char* name;
  } cases[] = {
      {dir.File("missing.gguf"), "missing.gguf"},
      {dir.Write("empty.gguf", ""), "empty.gguf"},
      {dir.Write("text.gguf", "not a model\n"), "text.gguf"},
      {dir.path(), "config.json"},
      {"/dev/zero", "zero"},
  };
  for (const auto& test : cases) {
    const Failure failure = ServeInVain(SmallConfig(test.path));
    EXPECT_EQ(failure.exit_code, kExitConfig) << test.path;
    ASSERT_EQ(failure.lines.size(), 1u) << test.path;
    EXPECT_TRUE(failure.lines[0].starts_with("hydrantd: ")) << failure.lines[0];
    EXPECT_NE(failure.lines[0].find(test.name), std::string::npos) << failure.lines[0];
    EXPECT_EQ(failure.lines[0].find('\n'), std::string::npos);
  }
}

TEST(Server, AWrongFieldOfAModelIsNamedWithItsFile) {
  const TempDir dir;
  std::filesystem::copy(kModel, dir.path(), std::filesystem::copy_options::recursive);
  std::string config((std::istreambuf_iterator<char>(*std::make_unique<std::ifstream>(dir.File("config.json")))), {});
  const size_t at = config.find("\"num_hidden_layers\":");
  ASSERT_NE(at, std::string::npos);
  dir.Write("config.json", config.replace(at, config.find(',', at) - at, "\"num_hidden_layers\": 0"));
  const Failure failure = ServeInVain(SmallConfig(dir.path()));
  EXPECT_EQ(failure.exit_code, kExitConfig);
  ASSERT_EQ(failure.lines.size(), 1u);
  EXPECT_NE(failure.lines[0].find("config.json"), std::string::npos) << failure.lines[0];
  EXPECT_NE(failure.lines[0].find("num_hidden_layers"), std::string::npos) << failure.lines[0];
}

TEST(Server, ATakenPortIsExit75) {
  TestServer other;
  Config config = SmallConfig();
  config.port = other.port();
  const Failure failure = ServeInVain(config);
  EXPECT_EQ(failure.exit_code, kExitResources);
  ASSERT_EQ(failure.lines.size(), 1u);
  EXPECT_NE(failure.lines[0].find(std::to_string(other.port())), std::string::npos) << failure.lines[0];
  config.model_path = "/nowhere";
  EXPECT_EQ(ServeInVain(config).exit_code, kExitResources) << "before the model is looked at";
  config.port = 0;
  config.admin_port = other.port();
  config.admin_key = "key";
  EXPECT_EQ(ServeInVain(config).exit_code, kExitResources) << "the operator's, too";
}

TEST(Server, FlagsThatContradictTheModelOrTheMachineAreNamed) {
  const struct {
    const char* flag;
    std::function<void(Config&)> change;
    int exit_code;
  } cases[] = {
      {"--max-model-len", [](Config& c) { c.max_model_len = 1 << 20; }, kExitUsage},
      {"--max-num-batched-tokens", [](Config& c) { c.batch_tokens_max = 20; }, kExitUsage},
      {"--kv-cache-memory-bytes", [](Config& c) { c.kv_cache_memory_bytes = 1; }, kExitResources},
      {"--debug-kv-dump", [](Config& c) { c.kv_dump_path = "/no/such/folder/x"; }, kExitUsage},
      {"--kv-policy",
       [](Config& c) {
         c.kv.preset = KvPreset::kH2oReal;  // not for grouped queries
         c.kv.budget_kind = KvBudgetKind::kTokens;
         c.kv.budget_tokens = 32;
         c.kv.recent = 16;
       },
       kExitUsage},
      {"--kv-policy",
       [](Config& c) {
         c.kv.preset = KvPreset::kH2o;
         c.kv.budget_kind = KvBudgetKind::kTokens;
         c.kv.budget_tokens = 1 << 20;  // more than the model's context
       },
       kExitUsage},
      {"--host", [](Config& c) { c.host = "no such name"; }, kExitUsage},
  };
  for (const auto& test : cases) {
    Config config = SmallConfig();
    test.change(config);
    const Failure failure = ServeInVain(config);
    EXPECT_EQ(failure.exit_code, test.exit_code) << test.flag;
    ASSERT_EQ(failure.lines.size(), 1u) << test.flag;
    EXPECT_NE(failure.lines[0].find(test.flag), std::string::npos) << failure.lines[0];
  }
}

TEST(Server, APoolTooLargeForTheMachineIsExit75) {
  Config config = SmallConfig();
  config.blocks_override = 1 << 28;
  EXPECT_EQ(ServeInVain(config).exit_code, kExitResources);
}

}  // namespace
}  // namespace hydrant
