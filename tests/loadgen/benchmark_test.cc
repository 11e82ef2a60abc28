#include "loadgen/benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
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

TEST(Benchmark, SaysHowRequestsCame) {
  ReplayServer server([](const std::string& head, const std::string&) { return Answer(head, 1); });
  const std::string path = testing::TempDir() + "/arrivals.json";
  const auto report = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--base-url", server.url(), "--save-detailed", "--result-filename", path});
    Output output;
    EXPECT_EQ(RunWith(arguments, &output), kLoadExitOk);
    std::ifstream file(path);
    return nlohmann::json::parse(file);
  };
  const auto ramp = report(
      {"--ramp-up-strategy", "linear", "--ramp-up-start-rps", "0", "--ramp-up-end-rps", "400", "--duration", "0.2"});
  EXPECT_TRUE(ramp["request_rate"].is_null());
  EXPECT_EQ(ramp["ramp_up_strategy"], "linear");
  EXPECT_EQ(ramp["ramp_up_start_rps"], 0);
  EXPECT_EQ(ramp["ramp_up_end_rps"], 400);
  EXPECT_TRUE(ramp.contains("mean_client_queue_time_ms"));
  const std::string trace_path = testing::TempDir() + "/arrivals.txt";
  std::ofstream(trace_path) << "0\n0.01\n";
  const auto trace = report({"--arrival-trace", trace_path});
  EXPECT_TRUE(trace["request_rate"].is_null());
  EXPECT_FALSE(trace.contains("ramp_up_strategy"));
  const auto closed = report({"--max-concurrency", "1", "--num-prompts", "3"});
  EXPECT_EQ(closed["request_rate"], "inf");
  EXPECT_FALSE(closed.contains("mean_client_queue_time_ms"));
  EXPECT_FALSE(closed.contains("queue_times"));
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

TEST(Benchmark, SaysThatWarmUpsFailed) {
  std::atomic<int> asked{0};
  ReplayServer server(
      [&](const std::string&, const std::string&) { return asked++ < 2 ? PlainReply(500, "cold") : TokensReply(1); });
  Output output;
  RunWith({"--base-url", server.url(), "--num-prompts", "1", "--model", "m", "--num-warmups", "3"}, &output);
  EXPECT_THAT(output.notes, HasSubstr("Warmed up with 3 requests, 2 failed: HTTP 500: cold."));
}

TEST(Benchmark, NoBytesKeepAReportFromBeingWritten) {
  ReplayServer server([](const std::string&, const std::string&) { return PlainReply(500, "caf\xe9"); });
  const std::string path = testing::TempDir() + "/bytes.json";
  Output output;
  EXPECT_EQ(RunWith({"--base-url", server.url(), "--num-prompts", "2", "--model", "m", "--label", "\xff",
                     "--save-detailed", "--result-filename", path},
                    &output),
            kLoadExitNothing);
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["refusals"][0]["text"], "HTTP 500: caf\xef\xbf\xbd");
  EXPECT_EQ(json["label"], "\xef\xbf\xbd");
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
  EXPECT_EQ(RunWith({"--base-url", url, "--model", "m"}, &output), kLoadExitUnavailable)
      << "no model has to be asked for";
}

TEST(Benchmark, WaitsForAServerThatIsNotReady) {
  std::atomic<int> asked{0};
  ReplayServer server([&](const std::string& head, const std::string&) {
    switch (asked++) {
      case 0:
        return Reply{{}, true};
      case 1:
        return Reply{{"nonsense\r\n\r\n"}, true};
      case 2:
        return PlainReply(503, "");
      default:
        return Answer(head, 1);
    }
  });
  Output output;
  EXPECT_EQ(RunWith({"--base-url", server.url(), "--num-prompts", "1", "--ready-check-timeout-sec", "60"}, &output),
            kLoadExitOk)
      << output.notes;
}

TEST(Benchmark, WaitsForANameToBeKnown) {
  const auto begin = std::chrono::steady_clock::now();
  Output output;
  // No name is as long: nobody is asked about it.
  EXPECT_EQ(RunWith({"--base-url", "http://" + std::string(64, 'x'), "--ready-check-timeout-sec", "0.3"}, &output),
            kLoadExitUnavailable);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(300));
}

TEST(Benchmark, DoesNotWaitForAnotherKeyOrModel) {
  for (const Reply& reply : {PlainReply(401, ""), PlainReply(403, ""), PlainReply(200, R"({"data":[]})")}) {
    std::atomic<int> asked{0};
    ReplayServer server([&](const std::string&, const std::string&) {
      ++asked;
      return reply;
    });
    Output output;
    EXPECT_EQ(RunWith({"--base-url", server.url(), "--ready-check-timeout-sec", "60"}, &output), kLoadExitUnavailable);
    EXPECT_EQ(asked, 1);
  }
}

TEST(Benchmark, AFileThatCannotBeReadIsUsage) {
  Output output;
  EXPECT_EQ(RunWith({"--dataset-name", "sonnet", "--dataset-path", "nowhere.txt"}, &output), kLoadExitUsage);
}

TEST(Benchmark, AReportThatCannotBeWrittenIsAnErrorBeforeTheLoad) {
  std::atomic<int> completions{0};
  ReplayServer server([&](const std::string& head, const std::string&) {
    completions += head.find("POST") == 0;
    return Answer(head, 1);
  });
  for (const char* flag : {"--result-filename", "--html"}) {
    for (const std::string& path : {std::string("/dev/null/x"), testing::TempDir()}) {
      Output output;
      EXPECT_EQ(RunWith({"--base-url", server.url(), "--num-prompts", "1", flag, path}, &output), kLoadExitWrite);
      EXPECT_THAT(output.notes, HasSubstr("cannot write " + path));
    }
  }
  EXPECT_EQ(completions, 0);
}

TEST(Benchmark, TryingAPathLeavesNothing) {
  const std::string old_path = testing::TempDir() + "/before.json";
  const std::string new_path = testing::TempDir() + "/not/yet.html";
  std::filesystem::remove(new_path);
  std::ofstream(old_path) << "as it was";
  ReplayServer server([&](const std::string& head, const std::string&) {
    EXPECT_FALSE(std::filesystem::exists(new_path));
    EXPECT_EQ(std::filesystem::file_size(old_path), 9u);
    return Answer(head, 1);
  });
  Output output;
  EXPECT_EQ(
      RunWith({"--base-url", server.url(), "--num-prompts", "1", "--result-filename", old_path, "--html", new_path},
              &output),
      kLoadExitOk);
  EXPECT_GT(std::filesystem::file_size(new_path), 0u);
}

}  // namespace
}  // namespace hydrant
