#include "api/response/models.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace hydrant {
namespace {

using Json = nlohmann::json;

TEST(ModelsTest, TheListHasWhatBenchmarksRead) {
  const Json list = Json::parse(ModelListJson({{"smol", 1700000000, "SmolLM2.gguf", 8192, 737280}}));
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 1u);
  const Json& model = list["data"][0];
  EXPECT_EQ(model["id"], "smol");
  EXPECT_EQ(model["object"], "model");
  EXPECT_EQ(model["created"], 1700000000);
  EXPECT_EQ(model["owned_by"], "hydrant");
  EXPECT_EQ(model["root"], "SmolLM2.gguf");
  EXPECT_TRUE(model.contains("parent") && model["parent"].is_null());
  EXPECT_EQ(model["max_model_len"], 8192);
  EXPECT_EQ(model["kv_block_bytes"], 737280);
  ASSERT_EQ(model["permission"].size(), 1u);
  EXPECT_EQ(model["permission"][0]["object"], "model_permission");
  EXPECT_EQ(model, Json::parse(ModelJson({"smol", 1700000000, "SmolLM2.gguf", 8192, 737280})));
}

TEST(ModelsTest, AnAdapterHasTheModelAsItsParent) {
  const Json model = Json::parse(ModelJson({"poet", 1, "poet-v2", 8192, 737280, "smol"}));
  EXPECT_EQ(model["parent"], "smol");
  EXPECT_EQ(model["max_model_len"], 8192);
}

TEST(ModelsTest, PoliciesOfTheCacheAreListed) {
  EXPECT_EQ(Json::parse(ModelJson({"m", 1, "m", 8192, 737280}))["kv_policies"], Json::array());
  const Json model = Json::parse(ModelJson({"m", 1, "m", 8192, 737280, "", {"full", "auto"}}));
  EXPECT_EQ(model["kv_policies"], Json({"full", "auto"}));
  EXPECT_EQ(model["kv_recall"], "off");
  EXPECT_EQ(Json::parse(ModelJson({"m", 1, "m", 8192, 737280, "", {}, true}))["kv_recall"], "turn");
}

TEST(ModelsTest, NamesAreEscaped) {
  EXPECT_EQ(Json::parse(ModelJson({"a\"b\xff", 0, "", 1, 1}))["id"], "a\"b\xef\xbf\xbd");
}

TEST(ModelsTest, AnthropicsClientsFindTheMembersThatTheyNeed) {
  const std::vector<ModelCard> cards = {{"smol", 1700000000, "SmolLM2.gguf", 8192, 737280}, {"poet", 1, "", 8192, 1}};
  const Json list = Json::parse(MessagesModelListJson(cards));
  EXPECT_EQ(list["first_id"], "smol");
  EXPECT_EQ(list["last_id"], "poet");
  EXPECT_EQ(list["has_more"], false);
  const Json model = {{"type", "model"},        {"id", "smol"},
                      {"display_name", "smol"}, {"created_at", "2023-11-14T22:13:20Z"},
                      {"lifecycle", "active"},  {"max_input_tokens", 8192},
                      {"max_tokens", 8192}};
  EXPECT_EQ(list["data"][0], model);
  EXPECT_EQ(Json::parse(MessagesModelJson(cards[0])), model);
}

TEST(ModelsTest, AnEmptyListIsAList) { EXPECT_EQ(ModelListJson({}), R"({"object":"list","data":[]})"); }

TEST(ModelsTest, WhatRoutersReadIsInTokensAndShares) {
  const ServerFacts facts = {{"smol", 1700000000, "SmolLM2.gguf", 8192, 737280}, "0.1.0", 100, 8, 2};
  const Json info = Json::parse(ServerInfoJson(facts));
  EXPECT_EQ(info["served_model_name"], "smol");
  EXPECT_EQ(info["max_total_num_tokens"], 1600);
  EXPECT_EQ(info["max_running_requests"], 8);
  EXPECT_EQ(info["tp_size"], 2);
  EXPECT_EQ(Json::parse(ModelInfoJson(facts))["model_path"], "SmolLM2.gguf");
  const Json loads = Json::parse(LoadsJson({1700000000, 6, 3, 25, 7}, facts));
  EXPECT_EQ(loads["timestamp"], "2023-11-14T22:13:20Z");
  const Json& rank = loads["loads"][0];
  EXPECT_EQ(rank["num_running_reqs"], 6);
  EXPECT_EQ(rank["num_waiting_reqs"], 3);
  EXPECT_EQ(rank["num_used_tokens"], 400);
  EXPECT_EQ(rank["num_parked_tokens"], 112);
  EXPECT_EQ(rank["token_usage"], 0.25);
  EXPECT_EQ(rank["utilization"], 0.75);
  EXPECT_EQ(loads["aggregate"]["total_reqs"], 9);
  EXPECT_EQ(Json::parse(LoadsJson({}, {}))["loads"][0]["token_usage"], 0);
}

TEST(ModelsTest, VersionAndLoad) {
  EXPECT_EQ(VersionJson("0.1.0"), R"({"version":"0.1.0"})");
  EXPECT_EQ(LoadJson(3), R"({"server_load":3})");
}

}  // namespace
}  // namespace hydrant
