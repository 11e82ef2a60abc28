#include "loadgen/benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "nlohmann/json.hpp"
#include "tests/loadgen/replay_server.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

struct Output {
  std::string out;
  std::string notes;
  Terminal terminal{[this](const std::string& text) { out += text; },
                    [this](const std::string& line) { notes += line + "\n"; }, [](const std::string&) {}};
};

int RunWith(std::vector<std::string> arguments, Output* output) {
  OptionsResult parsed = ParseOptions(arguments);
  EXPECT_TRUE(parsed.options.has_value()) << parsed.message;
  return parsed.options.has_value() ? RunBenchmark(*parsed.options, output->terminal) : parsed.exit_code;
}

Reply Answer(const std::string& head, int tokens) {
  return head.find("GET /v1/models") == 0 ? PlainReply(200, R"({"data":[{"id":"the-model"}]})") : TokensReply(tokens);
}

TEST(Benchmark, RunsAndReports) {
  ReplayServer server([](const std::string& head, const std::string&) { return Answer(head, 4); });
  const std::string path = testing::TempDir() + "/benchmark.json";
  Output output;
  EXPECT_EQ(RunWith({"--base-url", server.url(), "--num-prompts", "5", "--num-warmups", "2", "--result-filename", path,
                     "--save-detailed"},
                    &output),
            kLoadExitOk);
  EXPECT_THAT(output.out, HasSubstr("the-model"));
  EXPECT_THAT(output.notes, HasSubstr("seed: 0"));
  EXPECT_THAT(output.notes, HasSubstr("Warmed up with 2 requests."));
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["completed"], 5) << "warm-ups are not counted";
  EXPECT_EQ(json["total_output_tokens"], 20);
  EXPECT_EQ(json["ttfts"].size(), 5u);
}

TEST(Benchmark, ComparesTwoServers) {
  ReplayServer first([](const std::string& head, const std::string&) { return Answer(head, 4); });
  ReplayServer second([](const std::string& head, const std::string&) { return Answer(head, 2); });
  const std::string json_path = testing::TempDir() + "/compare.json";
  const std::string html_path = testing::TempDir() + "/compare.html";
  Output output;
  EXPECT_EQ(
      RunWith({"--base-url", first.url(), "--compare-url", second.url(), "--num-prompts", "12", "--compare-rounds", "3",
               "--max-concurrency", "2", "--result-filename", json_path, "--html", html_path},
              &output),
      kLoadExitOk);
  EXPECT_THAT(output.out, HasSubstr("B / A"));
  std::ifstream file(json_path);
  const auto json = nlohmann::json::parse(file);
  ASSERT_EQ(json["servers"].size(), 2u);
  EXPECT_EQ(json["servers"][0]["total_output_tokens"], 48);
  EXPECT_EQ(json["servers"][1]["total_output_tokens"], 24);
  EXPECT_EQ(json["comparison"]["mean TTFT (ms)"]["pairs"], 12);
  std::stringstream html;
  html << std::ifstream(html_path).rdbuf();
  EXPECT_THAT(html.str(), HasSubstr(second.url()));
}

TEST(Benchmark, NothingSucceededIsNotSuccess) {
  ReplayServer server([](const std::string&, const std::string&) { return PlainReply(500, "oh no"); });
  Output output;
  EXPECT_EQ(RunWith({"--base-url", server.url(), "--num-prompts", "3", "--model", "m"}, &output), kLoadExitNothing);
  EXPECT_THAT(output.out, HasSubstr("3 x http_other   HTTP 500: oh no"));
}

TEST(Benchmark, NobodyThereIsUnavailable) {
  std::string url;
  {
    ReplayServer server([](const std::string& head, const std::string&) { return Answer(head, 1); });
    url = server.url();
  }
  Output output;
  EXPECT_EQ(RunWith({"--base-url", url}, &output), kLoadExitUnavailable);
  EXPECT_THAT(output.notes, HasSubstr(url));
}

TEST(Benchmark, AFileThatCannotBeReadIsUsage) {
  Output output;
  EXPECT_EQ(RunWith({"--dataset-name", "sonnet", "--dataset-path", "nowhere.txt"}, &output), kLoadExitUsage);
}

TEST(Benchmark, AReportThatCannotBeWrittenIsAnError) {
  ReplayServer server([](const std::string& head, const std::string&) { return Answer(head, 1); });
  Output output;
  EXPECT_EQ(
      RunWith({"--base-url", server.url(), "--num-prompts", "1", "--result-filename", "/dev/null/x.json"}, &output),
      kLoadExitWrite);
}

}  // namespace
}  // namespace hydrant
