#include "loadgen/load/dataset_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace hydrant {
namespace {

std::string WriteFile(const std::string& text) {
  const std::string path =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".txt";
  std::ofstream(path) << text;
  return path;
}

TEST(DatasetFiles, ReadsShareGptsShapes) {
  const auto chats = ReadShareGpt(WriteFile(R"([
    {"id": "a", "conversations": [{"from": "human", "value": "q\u00e9"}, {"from": "gpt", "value": "r"}, {"from": "gpt", "value": "s"}]},
    {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "q2"}, {"role": "assistant", "content": "r2"}]},
    {"conversations": [{"from": "gpt", "value": "first"}]},
    {"conversations": 5}, 7])"));
  ASSERT_TRUE(chats.ok()) << chats.status();
  EXPECT_EQ(*chats, (std::vector<std::vector<std::string>>{{"q\u00e9", "r"}, {"q2", "r2"}}));
}

TEST(DatasetFiles, RefusesWhatHasNoConversations) {
  for (const char* text : {"", "{}", "[]", "[{\"conversations\":[]}]", "[{"}) {
    EXPECT_FALSE(ReadShareGpt(WriteFile(text)).ok()) << text;
  }
}

TEST(DatasetFiles, ReadsLines) {
  EXPECT_EQ(*ReadLines(WriteFile("a b\r\n\n  \nc")), (std::vector<std::string>{"a b", "c"}));
  EXPECT_FALSE(ReadLines(WriteFile("\n \n")).ok());
}

TEST(DatasetFiles, ReadsTraces) {
  const auto plain = ReadTrace(WriteFile("# seconds\n0\n0.5\n\n2\n"));
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->arrivals_s, (std::vector<double>{0, 0.5, 2}));
  EXPECT_TRUE(plain->lengths.empty());
  const auto lengths = ReadTrace(WriteFile("0, 100, 20\n1.5 7 8\n"));
  ASSERT_TRUE(lengths.ok()) << lengths.status();
  EXPECT_EQ(lengths->lengths, (std::vector<std::pair<int32_t, int32_t>>{{100, 20}, {7, 8}}));
  const auto mooncake = ReadTrace(
      WriteFile("{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": [46, 47]}\n"));
  ASSERT_TRUE(mooncake.ok()) << mooncake.status();
  EXPECT_DOUBLE_EQ(mooncake->arrivals_s[0], 27.482);
  EXPECT_EQ(mooncake->lengths[0], std::make_pair(6955, 52));
}

TEST(DatasetFiles, AnEmptyFileCanBeRead) {
  EXPECT_NE(ReadTrace(WriteFile("")).status().message().find("has no arrivals"), std::string::npos);
  EXPECT_EQ(*ReadFile(WriteFile("")), "");
  for (const std::string& path : {std::string("nowhere"), testing::TempDir()}) {
    EXPECT_EQ(ReadFile(path).status().code(), absl::StatusCode::kNotFound) << path;
  }
}

TEST(DatasetFiles, RefusesTracesThatMakeNoSense) {
  for (const char* text : {"", "x", "1\n0", "-1", "nan", "1 2", "0 5 5\n1", "0\n1 5 5", "0 0 5", "{}",
                           "{\"timestamp\":1,\"input_length\":5}", "{\"timestamp\":1"}) {
    const auto trace = ReadTrace(WriteFile(text));
    EXPECT_FALSE(trace.ok()) << text;
  }
  EXPECT_NE(ReadTrace(WriteFile("0\nx\n")).status().message().find(":2"), std::string::npos);
}

TEST(DatasetFiles, ReadsTenants) {
  setenv("LOADGEN_TEST_KEY", "from-environment", 1);
  const auto tenants = ReadTenants(WriteFile(
      R"({"tenants": [{"name": "a", "key": "k", "weight": 3}, {"name": "b", "key_env": "LOADGEN_TEST_KEY", "load": 0.5}]})"));
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  ASSERT_EQ(tenants->size(), 2u);
  EXPECT_EQ((*tenants)[0].key, "k");
  EXPECT_EQ((*tenants)[0].weight, 3);
  EXPECT_EQ((*tenants)[1].key, "from-environment");
  EXPECT_EQ((*tenants)[1].load, 0.5);
}

TEST(DatasetFiles, ReadsATenant) {
  const auto tenant = ParseTenant("name=a,key=x=y,weight=2.5");
  ASSERT_TRUE(tenant.ok()) << tenant.status();
  EXPECT_EQ(tenant->name, "a");
  EXPECT_EQ(tenant->key, "x=y");
  EXPECT_EQ(tenant->weight, 2.5);
  for (const char* text :
       {"", "key=x", "name=a,weight=0", "name=a,weight=x", "name=a,colour=red", "name=a,key_env=NO_SUCH_KEY"}) {
    EXPECT_FALSE(ParseTenant(text).ok()) << text;
  }
}

TEST(DatasetFiles, RefusesTenantsThatMakeNoSense) {
  for (const char* text :
       {"", "[]", "{\"tenants\":[]}", "{\"tenants\":[{}]}", "{\"tenants\":[{\"name\":\"a\",\"colour\":\"red\"}]}",
        "{\"tenants\":[{\"name\":\"a\",\"weight\":-1}]}", "{\"tenants\":[{\"name\":\"a\",\"weight\":true}]}"}) {
    EXPECT_FALSE(ReadTenants(WriteFile(text)).ok()) << text;
  }
}

}  // namespace
}  // namespace hydrant
