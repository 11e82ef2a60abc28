#include "server/config_flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <set>
#include <string>

namespace hydrant {
namespace {

TEST(ConfigFlags, ANumberIsAllOfItsText) {
  EXPECT_EQ(ParseReal("0.5"), 0.5);
  EXPECT_EQ(ParseReal("-3"), -3);
  for (const char* text : {"", "1x", "x", "1 ", "0.5,"}) EXPECT_EQ(ParseReal(text), std::nullopt) << text;
}

TEST(ConfigFlags, EachIsThereOnceAndSaysWhatItIs) {
  CLI::App app("", "hydrantd");
  Config config;
  RawConfig raw;
  AddServeFlags(app, config, raw);
  std::set<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    EXPECT_TRUE(names.insert(option->get_single_name()).second) << option->get_single_name();
    EXPECT_FALSE(option->get_description().empty()) << option->get_single_name();
  }
  for (const char* name : {"session-headers", "replica-id", "kv-policy", "max-connections", "tenants"}) {
    EXPECT_TRUE(names.count(name)) << name;
  }
}

}  // namespace
}  // namespace hydrant
