#include "loadgen/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>

#include "absl/strings/str_split.h"

namespace hydrant {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

OptionsResult Parse(const std::string& line) {
  return ParseOptions(std::vector<std::string>(absl::StrSplit(line, ' ', absl::SkipEmpty())));
}

Options Parsed(const std::string& line) {
  OptionsResult result = Parse(line);
  EXPECT_TRUE(result.options.has_value()) << line << ": " << result.message;
  return result.options.value_or(Options());
}

TEST(LoadgenOptions, HasVllmsDefaults) {
  unsetenv("OPENAI_API_KEY");
  const Options options = Parsed("");
  EXPECT_EQ(options.base_url.ToString(), "http://127.0.0.1:8000");
  EXPECT_EQ(options.endpoint, "/v1/completions");
  EXPECT_TRUE(std::isinf(options.arrivals.rate));
  EXPECT_EQ(options.arrivals.count, 1000u);
  EXPECT_EQ(options.arrivals.burstiness, 1);
  EXPECT_EQ(options.workload.input_tokens.first(), 1024);
  EXPECT_EQ(options.workload.output_tokens->first(), 128);
  EXPECT_FALSE(options.save_result);
}

TEST(LoadgenOptions, TakesVllmsFlags) {
  const Options options = Parsed(
      "--backend openai-chat --base-url http://h:1 --model m --dataset-name random --random-input-len 64 "
      "--random-output-len 16 --random-range-ratio 0.5 --num-prompts 8 --request-rate 2.5 --burstiness 0.5 --seed 7 "
      "--ignore-eos --temperature 0 --goodput ttft:500 tpot:50 e2el:9000 --metric-percentiles 50,99.9 "
      "--metadata a=b c=d --header X-A=1 --save-result --result-dir d --result-filename r.json");
  EXPECT_EQ(options.endpoint, "/v1/chat/completions");
  EXPECT_EQ(options.arrivals.count, 8u);
  EXPECT_EQ(options.arrivals.rate, 2.5);
  EXPECT_EQ(options.arrivals.seed, 7u);
  EXPECT_EQ(options.workload.input_tokens.ToString(), "uniform:32:96");
  EXPECT_EQ(options.summary.goals.ttft_ms, 500);
  EXPECT_EQ(options.summary.goals.tpot_ms, 50);
  EXPECT_EQ(options.summary.goals.e2el_ms, 9000);
  EXPECT_EQ(options.summary.percents, (std::vector<double>{50, 99.9}));
  EXPECT_EQ(options.metadata[1], std::make_pair(std::string("c"), std::string("d")));
  EXPECT_EQ(options.fields[0].second, "1");
  EXPECT_THAT(options.sampling_json, HasSubstr("\"ignore_eos\":true"));
  EXPECT_TRUE(options.save_result);
}

TEST(LoadgenOptions, UnknownFlagsAndBadValuesAreExit64) {
  for (const char* line : {"--no-such-flag",
                           "stray",
                           "--request-rate 0",
                           "--request-rate x",
                           "--burstiness 0",
                           "--duration 0",
                           "--goodput ttft",
                           "--goodput itl:5",
                           "--base-url h:80",
                           "--num-prompts -1",
                           "--num-warmups -1",
                           "--prefix-repetition-num-prefixes 0",
                           "--input-len 16777217",
                           "--port 0",
                           "--metric-percentiles 101",
                           "--random-input-len uniform:9:1",
                           "--dataset-name sharegpt",
                           "--dataset-path x",
                           "--ramp-up-strategy linear",
                           "--duration 5",
                           "--ramp-up-users-s 5",
                           "--tenant key=x",
                           "--tenant name=a --tenant name=a",
                           "--extra-body [1]",
                           "--header x",
                           "--random-token-ids 5",
                           "--random-token-ids 5:9 --backend openai-chat",
                           "--arrival-trace nowhere",
                           "--tenants-file nowhere",
                           "--sonnet-input-len 5 --dataset-name sonnet --dataset-path x",
                           "--compare-url x",
                           "--compare-url http://h --num-prompts 5",
                           "--backend tgi"}) {
    const OptionsResult result = Parse(line);
    EXPECT_FALSE(result.options.has_value()) << line;
    EXPECT_EQ(result.exit_code, kLoadExitUsage) << line;
    EXPECT_EQ(result.message.find('\n'), std::string::npos) << line;
    EXPECT_FALSE(result.message.empty()) << line;
  }
}

TEST(LoadgenOptions, AMistypedFlagIsToldTheNearestOne) {
  EXPECT_EQ(Parse("--request-rat 5").message, "--request-rat: did you mean --request-rate?");
  EXPECT_EQ(Parse("--api-kye=geheim").message, "--api-kye: did you mean --api-key?");
  EXPECT_THAT(Parse("--tokenizer x").message, HasSubstr("hydrant-loadgen --help-all lists them"));
}

TEST(LoadgenOptions, TextOfRequestHeadsHasNoControlCharacters) {
  unsetenv("OPENAI_API_KEY");
  const auto message = [](std::vector<std::string> arguments) { return ParseOptions(arguments).message; };
  EXPECT_THAT(message({"--request-id-prefix", "a\r\nX: y"}), HasSubstr("--request-id-prefix: must not"));
  EXPECT_THAT(message({"--api-key", "geheim\n"}), AllOf(HasSubstr("--api-key: must not"), Not(HasSubstr("geheim"))));
  EXPECT_THAT(message({"--header", "a=b\r\nc: d"}), HasSubstr("--header: must not"));
  EXPECT_THAT(message({"--endpoint", "/a\rb"}), HasSubstr("--endpoint: must not"));
  EXPECT_THAT(message({"--tenant", "name=a,key=geheim\n"}),
              AllOf(HasSubstr("--tenant: the key of a: must not"), Not(HasSubstr("geheim"))));
  EXPECT_THAT(message({"--model", "\xff"}), HasSubstr("--model: must be UTF-8"));
  const std::string path = testing::TempDir() + "/options_tenants.json";
  std::ofstream(path) << R"({"tenants": [{"name": "a", "key": "geheim\n"}]})";
  EXPECT_THAT(message({"--tenants-file", path}), HasSubstr("--tenants-file: the key of a: must not"));
  setenv("OPENAI_API_KEY", "geheim\n", 1);
  EXPECT_THAT(message({}), AllOf(HasSubstr("OPENAI_API_KEY: must not"), Not(HasSubstr("geheim"))));
  EXPECT_TRUE(ParseOptions({"--api-key", "given"}).options.has_value()) << "the environment's is not used";
  unsetenv("OPENAI_API_KEY");
}

TEST(LoadgenOptions, AHostMayBeAnIpv6Address) {
  EXPECT_EQ(Parsed("--host ::1 --port 9").base_url.ToString(), "http://[::1]:9");
  EXPECT_EQ(Parsed("--host [::1]").base_url.ToString(), "http://[::1]:8000");
  EXPECT_THAT(Parse("--host a@b").message, HasSubstr("--host: "));
}

TEST(LoadgenOptions, ABaseUrlMayEndInV1) {
  for (const char* url : {"http://h:1", "http://h:1/v1", "http://h:1/v1/"}) {
    const Options options = Parsed(std::string("--base-url ") + url + " --compare-url " + url);
    EXPECT_EQ(options.base_url.ToString() + options.endpoint, "http://h:1/v1/completions");
    EXPECT_EQ(options.compare_url->ToString(), "http://h:1");
  }
  const Options options = Parsed("--base-url http://h:1/a/v1 --endpoint /completions");
  EXPECT_EQ(options.base_url.ToString() + options.endpoint, "http://h:1/a/v1/completions");
  EXPECT_EQ(Parsed("--base-url http://h:1 --endpoint /x").endpoint, "/x");
}

TEST(LoadgenOptions, ARampNeedsBothEnds) {
  const Options options = Parsed("--ramp-up-strategy linear --ramp-up-start-rps 0 --ramp-up-end-rps 20 --duration 5");
  EXPECT_EQ(options.arrivals.ramp, Ramp::kLinear);
  EXPECT_EQ(options.arrivals.ramp_start, 0);
  EXPECT_EQ(options.arrivals.ramp_end, 20);
  const std::pair<const char*, const char*> cases[] = {
      {"--ramp-up-strategy linear --ramp-up-end-rps 20 --duration 5", "--ramp-up-start-rps: "},
      {"--ramp-up-strategy linear --ramp-up-start-rps 1 --duration 5", "--ramp-up-end-rps: "},
      {"--ramp-up-strategy linear --ramp-up-start-rps -1 --ramp-up-end-rps 5 --duration 5", "--ramp-up-start-rps: "},
      {"--ramp-up-strategy linear --ramp-up-start-rps nan --ramp-up-end-rps 5 --duration 5", "--ramp-up-start-rps: "},
      {"--ramp-up-strategy linear --ramp-up-start-rps 0 --ramp-up-end-rps 5", "--ramp-up-start-rps: "},
      {"--ramp-up-strategy linear --ramp-up-start-rps 0 --ramp-up-end-rps 5 --num-prompts 9", "--ramp-up-start-rps: "},
      {"--ramp-up-strategy exponential --ramp-up-start-rps 0 --ramp-up-end-rps 5 --duration 5",
       "--ramp-up-start-rps: "},
      {"--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 0 --duration 5", "--ramp-up-end-rps: "},
      {"--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 5 --request-rate 5", "--request-rate: "},
      {"--ramp-up-start-rps 1", "--ramp-up-start-rps: needs"},
      {"--ramp-up-end-rps 1", "--ramp-up-end-rps: needs"}};
  for (const auto& [line, message] : cases) EXPECT_THAT(Parse(line).message, HasSubstr(message)) << line;
}

TEST(LoadgenOptions, AClosedLoopMayLastForADuration) {
  const Options options = Parsed("--max-concurrency 4 --duration 10 --ramp-up-users-s 2");
  EXPECT_EQ(options.arrivals.count, 0u);
  EXPECT_EQ(options.arrivals.users, 4);
  EXPECT_EQ(options.arrivals.duration_s, 10);
  EXPECT_EQ(options.concurrency_max, 4);
}

TEST(LoadgenOptions, KnowsTheDatasets) {
  const Options prefix = Parsed("--dataset-name prefix_repetition --prefix-repetition-num-prefixes 3");
  EXPECT_EQ(prefix.workload.prefix_tokens, 256);
  EXPECT_EQ(prefix.workload.prefixes, 3);
  const Options chats = Parsed("--dataset-name multi_turn --think-time-s exponential:2 --output-len 9");
  EXPECT_EQ(chats.workload.turns.first(), 3);
  EXPECT_EQ(chats.workload.think_s.ToString(), "exponential:2");
  EXPECT_EQ(chats.workload.output_tokens->first(), 9);
  const Options sonnet = Parsed("--dataset-name sonnet --dataset-path s.txt");
  EXPECT_EQ(sonnet.workload.input_tokens.first(), 350);
  EXPECT_EQ(sonnet.workload.prefix_tokens, 200);
}

TEST(LoadgenOptions, ATraceBringsArrivalsAndLengths) {
  const std::string path = testing::TempDir() + "/options_trace.txt";
  std::ofstream(path) << "0 5 6\n2 7 8\n";
  const Options options = Parsed("--arrival-trace " + path);
  EXPECT_EQ(options.arrivals.trace, (std::vector<double>{0, 2}));
  EXPECT_EQ(options.workload.lengths[1], std::make_pair(7, 8));
  EXPECT_EQ(options.arrivals.count, 0u);
  EXPECT_THAT(Parse("--dataset-name sharegpt --dataset-path x --arrival-trace " + path).message,
              HasSubstr("--arrival-trace: has lengths"));
  for (const char* flag : {"--input-len", "--output-len", "--random-input-len", "--random-output-len"}) {
    EXPECT_THAT(Parse("--arrival-trace " + path + " " + flag + " 9").message,
                HasSubstr(std::string(flag) + ": not with --arrival-trace"));
  }
  EXPECT_THAT(Parse("--random-range-ratio 0.5 --arrival-trace " + path).message,
              HasSubstr("--random-range-ratio: not with --arrival-trace"));
  EXPECT_EQ(Parsed("--input-len 9 --num-turns 2 --arrival-trace " + path).workload.input_tokens.first(), 9)
      << "of the later turns";
  EXPECT_THAT(Parse("--burstiness 3 --arrival-trace " + path).message,
              HasSubstr("--burstiness: not with --arrival-trace"));
  std::ofstream(path) << "0\n2\n";
  EXPECT_EQ(Parsed("--input-len 9 --arrival-trace " + path).workload.input_tokens.first(), 9);
  EXPECT_THAT(Parse("--burstiness 3 --arrival-trace " + path).message,
              HasSubstr("--burstiness: not with --arrival-trace"));
}

TEST(LoadgenOptions, KeysStayOutOfReports) {
  const Options options = Parsed("--api-key geheim --tenant name=a,key=geheim,weight=3 --header X-Key=geheim --seed 5");
  EXPECT_EQ(options.key, "geheim");
  EXPECT_EQ(options.workload.tenants[0].key, "geheim");
  bool seed = false;
  bool tenant = false;
  for (const auto& [name, value] : options.configuration) {
    EXPECT_EQ(value.find("geheim"), std::string::npos) << name;
    seed = seed || (name == "seed" && value == "5");
    tenant = tenant || (name == "tenant a" && value == "weight 3, load 3");
  }
  EXPECT_TRUE(seed);
  EXPECT_TRUE(tenant);
}

std::map<std::string, std::string> Named(const std::string& flags) {
  const Options options = Parsed(flags);
  return {options.configuration.begin(), options.configuration.end()};
}

TEST(LoadgenOptions, AReportNamesWhatTheLoadUsed) {
  auto named = Named("--duration 5 --request-rate 2 --input-len 64 --sonnet-output-len 9");
  EXPECT_EQ(named["input-len"], "64");
  EXPECT_EQ(named["random-output-len"], "128");
  EXPECT_EQ(named["sonnet-output-len"], "9") << "given, if in vain";
  for (const char* idle :
       {"num-prompts", "random-input-len", "sonnet-input-len", "multi-turn-input-len", "compare-rounds", "port"}) {
    EXPECT_EQ(named.count(idle), 0u) << idle;
  }
  EXPECT_EQ(Named("--num-prompts 1")["request-rate"], "inf");
  EXPECT_EQ(Named("--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 2").count("request-rate"), 0u);
}

TEST(LoadgenOptions, AReportNamesNoRateAndNoLengthsBesideThoseOfATrace) {
  const std::string path = testing::TempDir() + "/named.trace";
  std::ofstream(path) << "0 20 4\n0.5 30 4\n";
  auto named = Named("--arrival-trace " + path);
  for (const char* idle : {"request-rate", "burstiness", "random-input-len", "random-output-len"}) {
    EXPECT_EQ(named.count(idle), 0u) << idle;
  }
  EXPECT_EQ(named["arrival-trace"], path);
}

TEST(LoadgenOptions, HelpAndVersionSucceed) {
  EXPECT_EQ(Parse("--help").exit_code, kLoadExitOk);
  EXPECT_THAT(Parse("--help").message, HasSubstr("--request-rate"));
  EXPECT_THAT(Parse("--version").message, HasSubstr("hydrant-loadgen "));
}

}  // namespace
}  // namespace hydrant
