#include "server/model_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

TEST(ParseHubName, TakesAnOwnerANameAndAFormat) {
  HubName name;
  ASSERT_TRUE(ParseHubName("Qwen/Qwen2.5-0.5B_x", &name));
  EXPECT_EQ(name.repository, "Qwen/Qwen2.5-0.5B_x");
  EXPECT_EQ(name.format, "");
  ASSERT_TRUE(ParseHubName("org/name-GGUF:Q4_K_M", &name));
  EXPECT_EQ(name.repository, "org/name-GGUF");
  EXPECT_EQ(name.format, "Q4_K_M");
}

TEST(ParseHubName, RefusesWhatCouldLeadElsewhere) {
  HubName name;
  for (const char* text : {"", "name", "/name", "org/", "org/a/b", "../name", "org/..", "./name", "org/na me",
                           "org/name:", "org/name:..", "org/name:a/b", "org/name:a:b", "/models/x", "org\\name/x"}) {
    EXPECT_FALSE(ParseHubName(text, &name)) << text;
  }
}

class FindModelTest : public testing::Test {
 protected:
  // Makes a repository of the cache whose `main` is the commit abc1.
  void MakeRepository(const std::string& folder, const std::vector<std::string>& files) {
    const std::string root = cache_.File(folder);
    std::filesystem::create_directories(root + "/refs");
    std::filesystem::create_directories(root + "/snapshots/abc1");
    cache_.Write(folder + "/refs/main", "abc1");
    for (const std::string& file : files) cache_.Write(folder + "/snapshots/abc1/" + file, "x");
  }
  absl::StatusOr<FoundModel> Find(const std::string& model) { return FindModel(model, cache_.path()); }
  static std::string MessageOf(const absl::StatusOr<FoundModel>& found) {
    return std::string(found.status().message());
  }

  TempDir cache_;
};

TEST_F(FindModelTest, APathIsThatPathAndGivesItsName) {
  const std::string file = cache_.Write("Tiny.Q4_1.gguf", "x");
  EXPECT_EQ(Find(file)->path, file);
  EXPECT_EQ(Find(file)->name, "Tiny.Q4_1");
  EXPECT_EQ(Find(file)->root, "Tiny.Q4_1.gguf");
  EXPECT_THAT(MessageOf(Find(cache_.path())),
              testing::EndsWith(": there is no config.json in this directory; name the file: Tiny.Q4_1.gguf"));
  cache_.Write("config.json", "{}");
  EXPECT_EQ(Find(cache_.path() + "/")->name, std::filesystem::path(cache_.path()).filename());
}

TEST_F(FindModelTest, WhatIsNoPathAndNoNameIsSaid) {
  for (const char* model : {"/no/such/path", "smollm2-135m", ""}) {
    EXPECT_THAT(MessageOf(Find(model)),
                testing::HasSubstr(std::string("'") + model + "': there is no such file or directory"));
  }
}

TEST_F(FindModelTest, ANameOfTheHubIsItsSnapshot) {
  MakeRepository("models--org--name", {"config.json", "model.safetensors"});
  const absl::StatusOr<FoundModel> found = Find("org/name");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->path, cache_.File("models--org--name/snapshots/abc1"));
  EXPECT_EQ(found->name, "org/name");
  EXPECT_EQ(found->root, "org/name");
}

TEST_F(FindModelTest, AFormatChoosesAmongGgufFiles) {
  MakeRepository("models--org--name-GGUF", {"name-q4_k_m.gguf", "name-Q8_0.gguf", "name-iq4_k_m.gguf", "README.md"});
  const std::string snapshot = cache_.File("models--org--name-GGUF/snapshots/abc1/");
  EXPECT_EQ(Find("org/name-GGUF:Q4_K_M")->path, snapshot + "name-q4_k_m.gguf");
  EXPECT_EQ(Find("org/name-GGUF:q8_0")->path, snapshot + "name-Q8_0.gguf");
  EXPECT_EQ(Find("org/name-GGUF:q8_0")->name, "org/name-GGUF:q8_0");
  EXPECT_THAT(MessageOf(Find("org/name-GGUF:Q5_K_M")),
              testing::HasSubstr("without a Q5_K_M file (it has name-Q8_0.gguf, "));
  EXPECT_EQ(Find("org/name-GGUF").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(Find("org/name-GGUF")), testing::HasSubstr("could mean name-Q8_0.gguf, name-iq4_k_m.gguf"));
}

TEST_F(FindModelTest, AModelInPartsIsItsFirstPart) {
  MakeRepository("models--org--parts", {"name-Q4_K_M-00001-of-00002.gguf", "name-Q4_K_M-00002-of-00002.gguf"});
  const std::string first = cache_.File("models--org--parts/snapshots/abc1/name-Q4_K_M-00001-of-00002.gguf");
  EXPECT_EQ(Find("org/parts")->path, first);
  EXPECT_EQ(Find("org/parts:q4_k_m")->path, first);
  EXPECT_FALSE(Find("org/parts:Q8_0").ok());
}

TEST_F(FindModelTest, AnOnlyGgufFileNeedsNoFormat) {
  MakeRepository("models--org--name", {"config.json", "only.gguf"});
  EXPECT_EQ(Find("org/name")->path, cache_.File("models--org--name/snapshots/abc1/only.gguf"));
}

TEST_F(FindModelTest, WhatIsNotInTheCacheIsSaidWithWhatBringsIt) {
  EXPECT_EQ(Find("org/name").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(Find("org/name:Q4_0")), testing::HasSubstr("./hydrant fetch org/name:Q4_0 brings it there"));
  MakeRepository("models--org--empty", {"README.md"});
  EXPECT_THAT(MessageOf(Find("org/empty")), testing::HasSubstr("without a model"));
  MakeRepository("models--org--odd", {"config.json"});
  cache_.Write("models--org--odd/refs/main", "../../..");
  EXPECT_EQ(Find("org/odd").status().code(), absl::StatusCode::kNotFound);
}

TEST(HubCache, IsWhereTheHubsPackageKeepsIt) {
  for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) unsetenv(name);
  setenv("HOME", "/users/u", 1);
  EXPECT_EQ(HubCache(), "/users/u/.cache/huggingface/hub");
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(HubCache(), "/cache/huggingface/hub");
  setenv("HF_HOME", "/hf", 1);
  EXPECT_EQ(HubCache(), "/hf/hub");
  setenv("HF_HUB_CACHE", "/hub", 1);
  EXPECT_EQ(HubCache(), "/hub");
  for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) unsetenv(name);
}

}  // namespace
}  // namespace hydrant
