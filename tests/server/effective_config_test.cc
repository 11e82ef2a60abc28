#include "server/effective_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::string TextFor(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"serve", "model.gguf"});
  const ConfigResult result = ParseCommandLine(flags);
  EXPECT_TRUE(result.config.has_value()) << result.message;
  Sizing sizing;
  sizing.limits.blocks = 77;
  return EffectiveConfigJson(result.config.value_or(Config()), sizing, "a \"device\"");
}

Json SettingsFor(const std::vector<std::string>& flags) { return Json::parse(TextFor(flags))["settings"]; }

// "--[no-]kv-budget" -> "kv_budget".
std::set<std::string> FlagsOfHelp() {
  std::istringstream text(ParseCommandLine({"--help-all"}).message);
  std::set<std::string> flags;
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("  --")) continue;
    std::string flag = line.substr(4, line.find(' ', 4) - 4);
    if (flag.starts_with("[no-]")) flag.erase(0, 5);
    std::replace(flag.begin(), flag.end(), '-', '_');
    flags.insert(flag);
  }
  for (const char* ends : {"help", "help_all"}) flags.erase(ends);
  flags.erase("config");  // its members are there
  return flags;
}

TEST(EffectiveConfig, HasEveryFlagAndTheModel) {
  std::set<std::string> expected = FlagsOfHelp();
  EXPECT_GE(expected.size(), 40u);
  expected.insert("model");
  std::set<std::string> shown;
  const Json settings = SettingsFor({});
  for (const auto& [name, setting] : settings.items()) shown.insert(name);
  EXPECT_EQ(shown, expected);
}

TEST(EffectiveConfig, SaysWhereAValueCameFrom) {
  const TempDir dir;
  const std::string file = dir.Write("c.json", R"({"max_num_seqs": 3, "port": 1, "enable_prefix_caching": false})");
  setenv("HYDRANT_API_KEY", "from-environment", 1);
  const Json settings = SettingsFor({"--config", file, "--port", "2", "--kv-policy=h2o", "--kv_budget", "prompt:0.25"});
  unsetenv("HYDRANT_API_KEY");
  const auto is = [&](const char* name, const Json& value, const char* from) {
    EXPECT_EQ(settings[name]["value"], value) << name;
    EXPECT_EQ(settings[name]["from"], from) << name;
  };
  is("max_num_seqs", 3, "file");
  is("port", 2, "flag");
  is("kv_policy", "h2o", "flag");
  is("kv_budget", "prompt:0.25", "flag");
  is("enable_prefix_caching", false, "file");
  is("api_key", "***", "environment");
  is("admin_api_key", nullptr, "default");
  is("host", "127.0.0.1", "default");
  is("model", "model.gguf", "flag");
  is("session_ttl", 86400, "default");
  const Json derived = Json::parse(TextFor({}))["derived"];
  EXPECT_EQ(derived["blocks"], 77);
  EXPECT_EQ(derived["device"], "a \"device\"");
}

TEST(EffectiveConfig, NoKeyIsEverShown) {
  const std::string text = TextFor({"--api-key", "geheim-1", "--admin-api-key", "geheim-2", "--admin-port", "0"});
  EXPECT_THAT(text, Not(HasSubstr("geheim")));
  const std::string paths =
      TextFor({"--api-key-file", "/run/a", "--admin-api-key-file", "/run/b", "--admin-port", "0"});
  EXPECT_THAT(paths, HasSubstr(R"("api_key_file":{"value":"/run/a","from":"flag"})"));
}

}  // namespace
}  // namespace hydrant
