// Model directories, right and wrong. The letters and numbers are the rows of the table of bad model files; offsets, shapes
// and dtypes inside one file (E1 to E7) are safetensors_file_test's.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/model/checkpoint/refused_checkpoint.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using nlohmann::json;

TEST(DirectoryCheckpoint, OpensASoundDirectory) {
  const TempDir dir;
  const TinyDirectory tiny;
  tiny.WriteTo(dir.path());
  const auto opened = Checkpoint::Open(dir.path());
  ASSERT_THAT(opened, IsOk());
  const Checkpoint& checkpoint = **opened;
  EXPECT_EQ(checkpoint.config.vocab, 258);
  EXPECT_EQ(checkpoint.config.stored_dtype, DType::kF32);
  EXPECT_EQ(checkpoint.tokenizer->Encode("a", {}).front(), 256);
  EXPECT_TRUE(checkpoint.warnings.empty());
  EXPECT_TRUE(checkpoint.chat_template.empty());
  const TensorSource* down = checkpoint.tensors.Find(TensorRole::kDown, 1);
  ASSERT_NE(down, nullptr);
  std::vector<float> rows(2 * 64);
  down->ReadRows(3, 5, rows.data());
  const TestTensor stored = RandomTensor("model.layers.1.mlp.down_proj.weight", {32, 64});
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(rows.data()), 4 * rows.size()),
            stored.data.substr(4 * 3 * 64, 512));
  EXPECT_EQ(checkpoint.tensors.Find(TensorRole::kQBias, 0), nullptr);
}

// Cuts the tensors into two files and writes the index.
json WriteShards(const TinyDirectory& tiny, const TempDir& dir) {
  tiny.WriteTo(dir.path());
  std::filesystem::remove(dir.File("model.safetensors"));
  const auto half = tiny.tensors.begin() + 7;
  dir.Write("one.safetensors", SafetensorsBytes(std::vector<TestTensor>(tiny.tensors.begin(), half)));
  dir.Write("two.safetensors", SafetensorsBytes(std::vector<TestTensor>(half, tiny.tensors.end())));
  json map = json::object();
  for (size_t i = 0; i < tiny.tensors.size(); ++i)
    map[tiny.tensors[i].name] = i < 7 ? "one.safetensors" : "two.safetensors";
  return {{"metadata", {{"total_size", 1}}}, {"weight_map", map}};
}

TEST(DirectoryCheckpoint, OpensShards) {
  const TempDir dir;
  const json index = WriteShards(TinyDirectory(), dir);
  dir.Write("model.safetensors.index.json", index.dump());
  EXPECT_THAT(Checkpoint::Open(dir.path()), IsOk());
}

struct Template {
  const char* name;
  const char* tokenizer_config;
  const char* jinja;  // null: no such file
  const char* expected;
  const char* tool_use = "";
  const char* tool_use_jinja = nullptr;
};
class DirectoryTemplate : public testing::TestWithParam<Template> {};
TEST_P(DirectoryTemplate, IsFound) {
  const TempDir dir;
  TinyDirectory().WriteTo(dir.path());
  dir.Write("tokenizer_config.json", GetParam().tokenizer_config);
  if (GetParam().jinja != nullptr) dir.Write("chat_template.jinja", GetParam().jinja);
  if (GetParam().tool_use_jinja != nullptr) {
    std::filesystem::create_directory(std::filesystem::path(dir.path()) / "additional_chat_templates");
    dir.Write("additional_chat_templates/tool_use.jinja", GetParam().tool_use_jinja);
  }
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_EQ((*checkpoint)->chat_template, GetParam().expected);
  EXPECT_EQ((*checkpoint)->tool_use_template, GetParam().tool_use);
}
INSTANTIATE_TEST_SUITE_P(
    , DirectoryTemplate,
    testing::Values(
        Template{"None", "{}", nullptr, ""}, Template{"Null", R"({"chat_template": null})", nullptr, ""},
        Template{"Text", R"({"chat_template": "A"})", nullptr, "A"},
        Template{"OneOfSeveral",
                 R"({"chat_template": [{"name": "rag", "template": "R"}, {"name": "default", "template": "D"}]})",
                 nullptr, "D"},
        Template{"OneForTools",
                 R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})",
                 nullptr, "D", "T"},
        Template{"AFileForTools", R"({"chat_template": "A"})", "J", "J", "F", "F"},
        Template{"AFileForToolsWins",
                 R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})",
                 nullptr, "D", "F", "F"},
        Template{"FilesWinOverTheList",
                 R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})",
                 "J", "J"},
        Template{"AFileOfItsOwnWins", R"({"chat_template": "A"})", "J", "J"}),
    [](const auto& test) { return test.param.name; });

TEST(DirectoryCheckpoint, WarnsOfWhatItDoesNotUse) {
  const TempDir dir;
  TinyDirectory tiny;
  tiny.tensors.push_back(RandomTensor("extra", {3}));  // E9
  tiny.config["auto_map"] = {{"AutoModel", "x.Y"}};    // E18
  tiny.tokenizer["added_tokens"].push_back({{"id", 258}, {"content", "<pad>"}, {"special", true}});
  tiny.WriteTo(dir.path());
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_EQ((*checkpoint)->warnings,
            (std::vector<std::string>{"config.json: 'auto_map': is ignored; no code of a checkpoint is ever run",
                                      "tokenizer.json: added token '<pad>': id 258 has no embedding; ignored",
                                      "model.safetensors: tensor 'extra': is not used"}));
}

TEST(DirectoryCheckpoint, AHeadThatIsNotTheEmbeddingIsUsedWhateverTheConfigSays) {
  for (const bool same : {false, true}) {
    const TempDir dir;
    TinyDirectory tiny;
    tiny.config["tie_word_embeddings"] = true;
    if (same) tiny.At("lm_head.weight").data = tiny.At("model.embed_tokens.weight").data;
    tiny.WriteTo(dir.path());
    const auto opened = Checkpoint::Open(dir.path());
    ASSERT_THAT(opened, IsOk());
    EXPECT_EQ((*opened)->config.tied_embeddings, same);
    EXPECT_EQ((*opened)->tensors.Find(TensorRole::kHead, 0) == nullptr, same);
    const std::vector<std::string> warning = {
        "model.safetensors: tensor 'lm_head.weight': is not the embedding, though config.json ties them; it is used"};
    EXPECT_EQ((*opened)->warnings, same ? std::vector<std::string>() : warning);
  }
}

TEST(DirectoryCheckpoint, ATiedHeadOfAnotherShapeIsNotUsed) {
  const TempDir dir;
  TinyDirectory tiny;
  tiny.config["tie_word_embeddings"] = true;
  tiny.At("lm_head.weight") = RandomTensor("lm_head.weight", {250, 32});
  tiny.WriteTo(dir.path());
  const auto opened = Checkpoint::Open(dir.path());
  ASSERT_THAT(opened, IsOk());
  EXPECT_TRUE((*opened)->config.tied_embeddings);
  ASSERT_EQ((*opened)->warnings.size(), 1u);
  EXPECT_TRUE((*opened)->warnings.front().ends_with("it is not used, as its shape is another"));
}

// E10: loads, and names the tensors once they were read.
TEST(DirectoryCheckpoint, NamesTensorsWithNumbersThatAreNotFinite) {
  const TempDir dir;
  TinyDirectory tiny;
  const std::string q = "model.layers.1.self_attn.q_proj.weight";
  tiny.At(q).data.replace(4 * 77, 4, Raw(std::numeric_limits<float>::quiet_NaN()));
  tiny.At("model.norm.weight").data.replace(0, 4, Raw(-std::numeric_limits<float>::infinity()));
  tiny.WriteTo(dir.path());
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_THAT(checkpoint, IsOk());
  std::vector<float> out(32 * 32);
  (*checkpoint)->tensors.Find(TensorRole::kQ, 0)->ReadRows(0, 32, out.data());
  (*checkpoint)->tensors.Find(TensorRole::kQ, 1)->ReadRows(0, 32, out.data());
  (*checkpoint)->tensors.Find(TensorRole::kFinalNorm, 0)->ReadRows(0, 1, out.data());
  EXPECT_THAT((*checkpoint)->tensors.NonFinite(), testing::UnorderedElementsAre(q, "model.norm.weight"));
}

struct Wrong {
  const char* name;
  std::function<void(TinyDirectory&)> spoil;
  std::vector<std::string> parts;
};
class DirectoryRefusal : public testing::TestWithParam<Wrong> {};
TEST_P(DirectoryRefusal, NamesFileAndField) {
  const TempDir dir;
  TinyDirectory tiny;
  GetParam().spoil(tiny);
  tiny.WriteTo(dir.path());
  ExpectRefused(dir.path(), GetParam().parts);
}

constexpr const char* kWeights = "model.safetensors: ";
constexpr const char* kConfig = "config.json: ";
constexpr const char* kUp1 = "model.layers.1.mlp.up_proj.weight";

INSTANTIATE_TEST_SUITE_P(
    E9Tensors, DirectoryRefusal,
    testing::Values(Wrong{"Missing", [](auto& d) { d.Remove(kUp1); }, {kWeights, kUp1, "is missing"}},
                    Wrong{"Transposed",
                          [](auto& d) {
                            d.At(kUp1).shape = {32, 64};
                          },
                          {kWeights, kUp1, "[32, 64], the config asks for [64, 32]"}},
                    Wrong{"Flat", [](auto& d) { d.At(kUp1).shape = {2048}; }, {kWeights, kUp1, "[2048]"}},
                    Wrong{"OfIntegers", [](auto& d) { d.At(kUp1).dtype = "I32"; }, {kWeights, kUp1, "I32"}},
                    Wrong{"BiasMissing",
                          [](auto& d) { d.config["attention_bias"] = true; },
                          {kWeights, "q_proj.bias", "is missing"}},
                    Wrong{"HeadMissing", [](auto& d) { d.Remove("lm_head.weight"); }, {kWeights, "lm_head.weight"}},
                    Wrong{"MoreLayersThanTensors",
                          [](auto& d) { d.config["num_hidden_layers"] = 1024; },
                          {kWeights, "model.layers.2.", "is missing"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    E16Vocabulary, DirectoryRefusal,
    testing::Values(Wrong{"MoreRowsThanVocabulary",
                          [](auto& d) {
                            d.At("model.embed_tokens.weight").shape = {129, 64};
                          },
                          {kWeights, "model.embed_tokens.weight", "[129, 64], the config asks for [258, 32]"}},
                    Wrong{"VocabularyLargerThanRows",
                          [](auto& d) { d.config["vocab_size"] = 259; },
                          {kWeights, "model.embed_tokens.weight", "[259, 32]"}},
                    Wrong{"TokensBeyondVocabulary",
                          [](auto& d) {
                            d.tokenizer = GrowingTokenizerJson();
                            d.tokenizer["model"]["vocab"]["ab"] = 258;
                          },
                          {"tokenizer.json: 'model.vocab'", "258"}},
                    Wrong{"PrefixTokenBeyondVocabulary",
                          [](auto& d) {
                            d.tokenizer["added_tokens"].push_back({{"id", 258}, {"content", "<b>"}});
                            d.tokenizer["post_processor"]["special_tokens"]["<s>"]["ids"] = {258};
                          },
                          {"tokenizer.json: ", "special token"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    OtherFiles, DirectoryRefusal,
    testing::Values(Wrong{"ConfigNoObject", [](auto& d) { d.config = 7; }, {kConfig, "is not an object"}},
                    Wrong{"TokenizerOfAnotherKind",
                          [](auto& d) { d.tokenizer["model"]["type"] = "Unigram"; },
                          {"tokenizer.json: ", "'Unigram' is not supported"}}),
    [](const auto& test) { return test.param.name; });

// What happens to the files after they were written.
struct Damage {
  const char* name;
  std::function<void(const TempDir&)> damage;
  std::vector<std::string> parts;
};
class DirectoryDamage : public testing::TestWithParam<Damage> {};
TEST_P(DirectoryDamage, IsRefusedByName) {
  const TempDir dir;
  TinyDirectory().WriteTo(dir.path());
  GetParam().damage(dir);
  ExpectRefused(dir.path(), GetParam().parts);
}

void Cut(const TempDir& dir, const char* name, int64_t bytes) { ASSERT_EQ(truncate(dir.File(name).c_str(), bytes), 0); }
void Replace(const TempDir& dir, const char* name, const std::function<void(const std::string&)>& make) {
  std::filesystem::remove(dir.File(name));
  make(dir.File(name));
}
const auto kPipe = [](const std::string& path) { mkfifo(path.c_str(), 0600); };
const auto kLinkToZero = [](const std::string& path) { std::filesystem::create_symlink("/dev/zero", path); };
const auto kDirectory = [](const std::string& path) { std::filesystem::create_directory(path); };

INSTANTIATE_TEST_SUITE_P(
    E1Weights, DirectoryDamage,
    testing::Values(Damage{"Absent",
                           [](auto& d) { std::filesystem::remove(d.File("model.safetensors")); },
                           {"model.safetensors: no such file"}},
                    Damage{"Bytes0", [](auto& d) { Cut(d, "model.safetensors", 0); }, {kWeights, "has 0 bytes"}},
                    Damage{"Bytes7", [](auto& d) { Cut(d, "model.safetensors", 7); }, {kWeights, "has 7 bytes"}},
                    Damage{"Bytes8", [](auto& d) { Cut(d, "model.safetensors", 8); }, {kWeights, "header length"}},
                    Damage{"HeaderOnly", [](auto& d) { Cut(d, "model.safetensors", 3500); }, {kWeights, "tensor"}},
                    Damage{"HeaderLength2To63",
                           [](auto& d) { d.Write("model.safetensors", Raw<uint64_t>(1ull << 63) + "{}"); },
                           {kWeights, "header length: 9223372036854775808"}},
                    Damage{"HeaderLengthTerabyteInASparseFile",
                           [](auto& d) {
                             d.Write("model.safetensors", Raw<uint64_t>(99'000'000) + "{}");
                             Cut(d, "model.safetensors", int64_t{1} << 30);
                           },
                           {kWeights, "not valid JSON"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    E12NoRegularFile, DirectoryDamage,
    testing::Values(
        Damage{
            "WeightsAPipe", [](auto& d) { Replace(d, "model.safetensors", kPipe); }, {kWeights, "not a regular file"}},
        Damage{"WeightsADevice",
               [](auto& d) { Replace(d, "model.safetensors", kLinkToZero); },
               {kWeights, "symbolic link"}},
        Damage{"WeightsADirectory",
               [](auto& d) { Replace(d, "model.safetensors", kDirectory); },
               {kWeights, "not a regular file"}},
        Damage{"ConfigAPipe", [](auto& d) { Replace(d, "config.json", kPipe); }, {kConfig, "not a regular file"}},
        Damage{"ConfigALink", [](auto& d) { Replace(d, "config.json", kLinkToZero); }, {kConfig, "symbolic link"}},
        Damage{"TokenizerADirectory",
               [](auto& d) { Replace(d, "tokenizer.json", kDirectory); },
               {"tokenizer.json: is not a regular file"}},
        Damage{"GenerationConfigALink",
               [](auto& d) { Replace(d, "generation_config.json", kLinkToZero); },
               {"generation_config.json: is a symbolic link"}},
        Damage{"IndexAPipe",
               [](auto& d) { Replace(d, "model.safetensors.index.json", kPipe); },
               {"model.safetensors.index.json: is not a regular file"}},
        Damage{"TemplateALink",
               [](auto& d) { Replace(d, "chat_template.jinja", kLinkToZero); },
               {"chat_template.jinja: is a symbolic link"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    OtherFiles, DirectoryDamage,
    testing::Values(
        Damage{
            "NoConfig", [](auto& d) { std::filesystem::remove(d.File("config.json")); }, {"config.json: no such file"}},
        Damage{"ConfigEmpty", [](auto& d) { Cut(d, "config.json", 0); }, {kConfig, "not valid JSON"}},
        Damage{"ConfigTooLarge", [](auto& d) { Cut(d, "config.json", (16 << 20) + 1); }, {kConfig, "at most 16777216"}},
        Damage{"TokenizerGigabyte",
               [](auto& d) { Cut(d, "tokenizer.json", 1 << 30); },
               {"tokenizer.json: has 1073741824 bytes; at most"}},
        Damage{"NoTokenizer",
               [](auto& d) { std::filesystem::remove(d.File("tokenizer.json")); },
               {"tokenizer.json: no such file"}},
        Damage{"SentencePiece",
               [](auto& d) { std::filesystem::rename(d.File("tokenizer.json"), d.File("tokenizer.model")); },
               {"tokenizer.model: is not a SentencePiece model"}},
        Damage{"TemplateNoString",
               [](auto& d) { d.Write("tokenizer_config.json", R"({"chat_template": 7})"); },
               {"tokenizer_config.json: 'chat_template': is not a string"}},
        Damage{
            "TemplatesWithoutDefault",
            [](auto& d) { d.Write("tokenizer_config.json", R"({"chat_template": [{"name": "x", "template": "y"}]})"); },
            {"tokenizer_config.json: 'chat_template': has no template named 'default'"}}),
    [](const auto& test) { return test.param.name; });

struct WrongIndex {
  const char* name;
  std::function<void(json&, const TempDir&)> spoil;
  std::vector<std::string> parts;
};
class IndexRefusal : public testing::TestWithParam<WrongIndex> {};
TEST_P(IndexRefusal, NamesFileAndField) {
  const TempDir dir;
  const TinyDirectory tiny;
  json index = WriteShards(tiny, dir);
  GetParam().spoil(index, dir);
  dir.Write("model.safetensors.index.json", index.dump());
  ExpectRefused(dir.path(), GetParam().parts);
}

constexpr const char* kIndex = "model.safetensors.index.json: ";
constexpr const char* kNorm = "model.norm.weight";

INSTANTIATE_TEST_SUITE_P(
    E12, IndexRefusal,
    testing::Values(
        WrongIndex{"Traversal",
                   [](auto& i, auto&) { i["weight_map"][kNorm] = "../../etc/passwd"; },
                   {kIndex, kNorm, "'../../etc/passwd' is not a plain file name"}},
        WrongIndex{"AbsolutePath",
                   [](auto& i, auto&) { i["weight_map"][kNorm] = "/etc/passwd"; },
                   {kIndex, "'/etc/passwd' is not a plain file name"}},
        WrongIndex{"Parent", [](auto& i, auto&) { i["weight_map"][kNorm] = ".."; }, {kIndex, "not a plain file name"}},
        WrongIndex{"NulByte",
                   [](auto& i, auto&) { i["weight_map"][kNorm] = std::string("one\0", 4); },
                   {kIndex, "not a plain file name"}},
        WrongIndex{"NoString", [](auto& i, auto&) { i["weight_map"][kNorm] = 7; }, {kIndex, kNorm, "is not a string"}},
        WrongIndex{"NoMap", [](auto& i, auto&) { i["weight_map"] = 7; }, {kIndex, "'weight_map': is not an object"}},
        WrongIndex{"MapMissing", [](auto& i, auto&) { i.erase("weight_map"); }, {kIndex, "'weight_map': is missing"}},
        WrongIndex{"TooManyFiles",
                   [](auto& i, auto&) {
                     for (int n = 0; n < 1001; ++n) i["weight_map"]["t" + std::to_string(n)] = std::to_string(n);
                   },
                   {kIndex, "more than 1000 files"}},
        WrongIndex{"ShardAbsent",
                   [](auto&, auto& d) { std::filesystem::remove(d.File("two.safetensors")); },
                   {"two.safetensors: no such file"}},
        WrongIndex{"ShardALink",
                   [](auto&, auto& d) { Replace(d, "two.safetensors", kLinkToZero); },
                   {"two.safetensors: is a symbolic link"}},
        WrongIndex{"ShardAPipe",
                   [](auto&, auto& d) { Replace(d, "two.safetensors", kPipe); },
                   {"two.safetensors: is not a regular file"}},
        WrongIndex{"ShardADirectory",
                   [](auto&, auto& d) { Replace(d, "two.safetensors", kDirectory); },
                   {"two.safetensors: is not a regular file"}},
        WrongIndex{"TensorInTheOtherShard",
                   [](auto& i, auto&) { i["weight_map"][kNorm] = "two.safetensors"; },
                   {kIndex, "1 of the tensors", "two.safetensors"}},
        WrongIndex{"TensorNowhere",
                   [](auto& i, auto&) { i["weight_map"]["ghost"] = "two.safetensors"; },
                   {kIndex, "1 of the tensors"}},
        WrongIndex{"TensorTwice",
                   [](auto&, auto& d) {
                     const TinyDirectory tiny;
                     d.Write("two.safetensors",
                             SafetensorsBytes(std::vector<TestTensor>(tiny.tensors.begin() + 6, tiny.tensors.end())));
                   },
                   {"is in one.safetensors as well"}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace hydrant
