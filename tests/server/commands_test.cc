// What hydrantd answers without serving: which families there are, whether a directory could be served.
#include "server/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kSound = R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "eos_token_id": 2,
  "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 258, "max_position_embeddings": 128,
  "quantization_config": {"quant_method": "gptq", "bits": BITS, "group_size": 32}})";

std::string WithBits(const std::string& bits) {
  return std::string(kSound).replace(std::string(kSound).find("BITS"), 4, bits);
}

TEST(Commands, CheckSaysWhetherADirectoryCanBeServed) {
  const TempDir dir;
  dir.Write("config.json", WithBits("4"));
  EXPECT_EQ(AnswerCommand({"check", dir.path()})->exit_code, kExitOk);
  dir.Write("config.json", WithBits("3"));
  const auto refused = AnswerCommand({"check", dir.path()});
  EXPECT_EQ(refused->exit_code, kExitConfig);
  EXPECT_EQ(refused->message, "config.json: 'quantization_config.bits': weights of 3 bits are not supported");
  EXPECT_EQ(AnswerCommand({"check", dir.path() + "/none"})->exit_code, kExitConfig);
  EXPECT_EQ(AnswerCommand({"check", "a", "b"})->exit_code, kExitUsage);
}

TEST(Commands, FamiliesAreJson) {
  const auto families = AnswerCommand({"families"});
  EXPECT_EQ(families->exit_code, kExitOk);
  EXPECT_THAT(json::parse(families->message).at("model_type").dump(), HasSubstr("llama"));
}

TEST(Commands, ToServeIsNotAnsweredHere) {
  EXPECT_FALSE(AnswerCommand({"serve", "model.gguf"}).has_value());
  EXPECT_FALSE(AnswerCommand({"--version"}).has_value());
  EXPECT_THAT(AnswerCommand({"chekc", "dir"})->message, HasSubstr("did you mean check?"));
}

TEST(Commands, TellWhatTheyAreFor) {
  for (const char* command : {"families", "check"}) {
    EXPECT_EQ(AnswerCommand({command, "--help"})->exit_code, kExitOk) << command;
    EXPECT_THAT(AnswerCommand({command, "--help"})->message, HasSubstr(command));
  }
  EXPECT_EQ(AnswerCommand({"families", "llama"})->message, "families: takes no arguments: hydrantd families");
}

}  // namespace
}  // namespace hydrant
