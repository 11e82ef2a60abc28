// .gguf files, right and wrong. The letters and numbers are the rows of the table of bad model files; damage to the
// container itself (E1 to E7: header, offsets, shapes, types) is gguf_file_test's, here it is only met once from outside.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/files/dequantize.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/model/checkpoint/refused_checkpoint.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

constexpr float kNanF32 = std::numeric_limits<float>::quiet_NaN();

absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const GgufBuilder& builder) {
  const TempDir dir;  // the mapping outlives the name
  return Checkpoint::Open(dir.Write("tiny.gguf", builder.Build()));
}

TEST(GgufCheckpoint, OpensASoundFile) {
  const GgufBuilder tiny = TinyGguf();
  const auto opened = Open(tiny);
  ASSERT_THAT(opened, IsOk());
  const Checkpoint& checkpoint = **opened;
  const ModelConfig& config = checkpoint.config;
  EXPECT_EQ(config.hidden, 32);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.query_heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.ffn, 64);
  EXPECT_EQ(config.vocab, 258);
  EXPECT_EQ(config.context, 128);
  EXPECT_EQ(config.norm_eps, 1e-5f);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.bos_id, 256);
  EXPECT_EQ(config.eos_ids, std::vector<int32_t>{257});
  EXPECT_EQ(config.rope_dims, 8);
  EXPECT_EQ(checkpoint.chat_template, "{{ messages }}");
  EXPECT_EQ(checkpoint.tool_use_template, "{{ tools }}");
  EXPECT_TRUE(checkpoint.warnings.empty());
  EXPECT_EQ(checkpoint.tensors.Find(TensorRole::kHead, 0), nullptr);
  EXPECT_EQ(checkpoint.generation_defaults.temperature, -1);
}

// Blocks move with their row when that of a head's half is un-permuted.
TEST(GgufCheckpoint, QuantisedQueryRowsAreToBeHadAsStored) {
  GgufBuilder tiny = TinyGguf();
  std::string data;
  for (int row = 0; row < 32; ++row) {
    data += Raw<uint16_t>(static_cast<uint16_t>(0x3C00 + row)) + Raw<uint16_t>(0x3800) +
            std::string(16, static_cast<char>(row));
  }
  tiny.At("blk.0.attn_q.weight") = {"blk.0.attn_q.weight", {32, 32}, GgufBuilder::kQ4_1, data};
  const auto checkpoint = Open(tiny);
  ASSERT_THAT(checkpoint, IsOk());
  const TensorSource& q = *(*checkpoint)->tensors.Find(TensorRole::kQ, 0);
  ASSERT_TRUE(q.has_stored_rows());
  EXPECT_EQ(q.format(), WeightFormat::kQ4_1);
  std::string stored(32 * 20, '\0');
  q.ReadStoredRows(0, 32, reinterpret_cast<std::byte*>(stored.data()));
  EXPECT_EQ(stored.substr(20, 20), data.substr(40, 20)) << "row 1 of a head is stored as its row 2";
  std::vector<float> expanded(32), read(32);
  for (int64_t row = 0; row < 32; ++row) {
    DequantizeRow(q.format(), stored.data() + row * 20, 32, expanded.data());
    q.ReadRows(row, row + 1, read.data());
    EXPECT_EQ(expanded, read) << row;
  }
}

// Row i of half j of a head is stored as row 2i + j.
TEST(GgufCheckpoint, UndoesTheInterleavingOfQueryAndKeyRows) {
  GgufBuilder tiny = TinyGguf();
  std::string data;
  for (int row = 0; row < 16; ++row) {
    for (int col = 0; col < 32; ++col) data += Raw(static_cast<float>(row));
  }
  tiny.At("blk.1.attn_k.weight").data = data;
  tiny.At("blk.1.attn_v.weight").data = data;
  const auto checkpoint = Open(tiny);
  ASSERT_THAT(checkpoint, IsOk());
  std::vector<float> k(16 * 32), v(16 * 32);
  (*checkpoint)->tensors.Find(TensorRole::kK, 1)->ReadRows(0, 16, k.data());
  (*checkpoint)->tensors.Find(TensorRole::kV, 1)->ReadRows(0, 16, v.data());
  const float stored[] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
  for (size_t row = 0; row < 16; ++row) {
    EXPECT_EQ(k[row * 32], stored[row]) << row;
    EXPECT_EQ(v[row * 32], static_cast<float>(row));
  }
}

// A file that types them as ordinary pieces would let a client's text begin a text or end a turn.
TEST(GgufCheckpoint, TokensThatBeginOrEndTextsAreSpecialWhateverTheirType) {
  GgufBuilder tiny = TinyGguf();
  for (const int32_t type : {1, 4}) {
    std::vector<int32_t> types(258, 1);
    types[256] = types[257] = type;
    const auto opened = Open(tiny.SetInts("tokenizer.ggml.token_type", types));
    ASSERT_THAT(opened, IsOk());
    const Tokenizer& tokenizer = *(*opened)->tokenizer;
    EXPECT_TRUE(tokenizer.IsSpecial(256));
    EXPECT_TRUE(tokenizer.IsSpecial(257));
    EXPECT_EQ(tokenizer.Encode("</s>", {}), std::vector<int32_t>{257});
    EXPECT_EQ(tokenizer.Encode("</s>", {.parse_special_tokens = false}).size(), 4u);
  }
}

TEST(GgufCheckpoint, AnOwnHeadIsNotTied) {
  GgufBuilder tiny = TinyGguf();
  tiny.AddF32("output.weight", {32, 258});
  const auto checkpoint = Open(tiny);
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_FALSE((*checkpoint)->config.tied_embeddings);
  EXPECT_NE((*checkpoint)->tensors.Find(TensorRole::kHead, 0), nullptr);
}

TEST(GgufCheckpoint, EveryEndOfGenerationTokenCounts) {
  GgufBuilder tiny = TinyGguf();
  tiny.Set("tokenizer.ggml.eot_token_id", 65).Set("tokenizer.ggml.eom_token_id", 257);
  const auto checkpoint = Open(tiny);
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_EQ((*checkpoint)->config.eos_ids, (std::vector<int32_t>{257, 65}));
}

// A file of Qwen's names <|im_end|> alone, where its own configuration has <|endoftext|>, too.
TEST(GgufCheckpoint, EndsThatNoIdNamesAreKnownByTheirText) {
  const auto ends_of = [](const std::vector<std::string>& added) {
    std::vector<std::string> tokens = ByteAlphabet();
    std::vector<int32_t> types(256, 1);
    tokens.insert(tokens.end(), {"<s>", "</s>"});
    tokens.insert(tokens.end(), added.begin(), added.end());
    while (types.size() < tokens.size())
      types.push_back(types.size() % 2 == 0 ? 3 : 4);  // control tokens, and added ones
    GgufBuilder tiny = TinyGguf();
    tiny.SetTexts("tokenizer.ggml.tokens", tokens).SetInts("tokenizer.ggml.token_type", types);
    tiny.Set("llama.vocab_size", static_cast<uint32_t>(tokens.size())).AddF32("token_embd.weight", {32, tokens.size()});
    const auto checkpoint = Open(tiny);
    EXPECT_THAT(checkpoint, IsOk());
    return checkpoint.ok() ? (*checkpoint)->config.eos_ids : std::vector<int32_t>();
  };
  EXPECT_EQ(ends_of({"<|endoftext|>", "<end_of_turn>", "<|im_start|>"}), (std::vector<int32_t>{257, 258, 259}));
  EXPECT_EQ(ends_of({"<|end|>"}), (std::vector<int32_t>{257, 258}));
  EXPECT_EQ(ends_of({"<|end|>", "<|return|>", "<|call|>"}), (std::vector<int32_t>{257, 259, 260}))
      << "one message of several";
}

struct Frequencies {
  const char* name;
  std::function<void(GgufBuilder&)> change;
  double second;  // of the four: theta^(-2/8), 0.1 by default
};
class GgufRope : public testing::TestWithParam<Frequencies> {};
TEST_P(GgufRope, IsRead) {
  GgufBuilder tiny = TinyGguf();
  GetParam().change(tiny);
  const auto checkpoint = Open(tiny);
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_NEAR((*checkpoint)->config.rope_inv_freq[1], GetParam().second, 1e-9);
}
INSTANTIATE_TEST_SUITE_P(
    , GgufRope,
    testing::Values(
        Frequencies{"Default", [](auto&) {}, 0.1},
        Frequencies{"Theta", [](auto& f) { f.SetFloat("llama.rope.freq_base", 160000); }, 0.05},
        Frequencies{
            "Linear",
            [](auto& f) { f.SetText("llama.rope.scaling.type", "linear").SetFloat("llama.rope.scaling.factor", 4); },
            0.025},
        Frequencies{"LinearInOldFiles", [](auto& f) { f.SetFloat("llama.rope.scale_linear", 4); }, 0.025},
        Frequencies{
            "Yarn",
            [](auto& f) { f.SetText("llama.rope.scaling.type", "yarn").SetFloat("llama.rope.scaling.factor", 4); },
            0.0625},
        Frequencies{"DivisorPerFrequency",
                    [](auto& f) {
                      f.At("rope_freqs.weight") = {
                          "rope_freqs.weight", {4}, GgufBuilder::kF32, Raw(1.0f) + Raw(2.0f) + Raw(4.0f) + Raw(8.0f)};
                    },
                    0.05}),
    [](const auto& test) { return test.param.name; });

// E10: loads, and names the tensor once it was read.
TEST(GgufCheckpoint, NamesTensorsWithNumbersThatAreNotFinite) {
  GgufBuilder tiny = TinyGguf();
  tiny.At("blk.0.ffn_up.weight").data.replace(4 * 100, 4, Raw(kNanF32));
  const auto checkpoint = Open(tiny);
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_TRUE((*checkpoint)->tensors.NonFinite().empty());
  std::vector<float> out(64 * 32);
  (*checkpoint)->tensors.Find(TensorRole::kUp, 0)->ReadRows(0, 64, out.data());
  EXPECT_EQ((*checkpoint)->tensors.NonFinite(), std::vector<std::string>{"blk.0.ffn_up.weight"});
}

TEST(GgufCheckpoint, NamesQuantisedTensorsWithScalesThatAreNotFinite) {
  GgufBuilder tiny = TinyGguf();
  std::string data(64 * 20, '\1');
  data.replace(37 * 20, 2, Raw<uint16_t>(0x7C00));
  tiny.At("blk.0.ffn_up.weight") = {"blk.0.ffn_up.weight", {32, 64}, GgufBuilder::kQ4_1, data};
  const auto checkpoint = Open(tiny);
  ASSERT_THAT(checkpoint, IsOk());
  std::vector<std::byte> out(64 * 20);
  const TensorSource& up = *(*checkpoint)->tensors.Find(TensorRole::kUp, 0);
  up.ReadStoredRows(0, 37, out.data());
  EXPECT_TRUE((*checkpoint)->tensors.NonFinite().empty());
  up.ReadStoredRows(32, 40, out.data());
  EXPECT_EQ((*checkpoint)->tensors.NonFinite(), std::vector<std::string>{"blk.0.ffn_up.weight"});
}

// E9.
TEST(GgufCheckpoint, WarnsOfExtraTensors) {
  GgufBuilder tiny = TinyGguf();
  tiny.AddF32("extra", {8});
  const auto checkpoint = Open(tiny);
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_EQ((*checkpoint)->warnings, std::vector<std::string>{"tiny.gguf: tensor 'extra': is not used"});
}

TEST(GgufCheckpoint, AWindowIsThatOfEveryLayerUnlessTheArchitectureHasARule) {
  const TempDir dir;
  GgufBuilder file = TinyGguf();
  file.Set("llama.attention.sliding_window", 64);
  const auto windowed = Checkpoint::Open(dir.Write("a.gguf", file.Build()));
  ASSERT_THAT(windowed, IsOk());
  const ModelConfig& config = (*windowed)->config;
  EXPECT_EQ(config.context, 128);
  EXPECT_EQ(config.window, 64);
  EXPECT_EQ(config.windowed_layers, std::vector<bool>(static_cast<size_t>(config.layers), true));
  EXPECT_TRUE((*windowed)->warnings.empty());
  file.Set("llama.attention.sliding_window", 0);
  const auto whole = Checkpoint::Open(dir.Write("b.gguf", file.Build()));
  ASSERT_THAT(whole, IsOk());
  EXPECT_EQ((*whole)->config.window_of(0), kNoWindow);
}

struct BadGguf {
  const char* name;
  std::function<void(GgufBuilder&)> spoil;
  std::string part;
};
class GgufRefusal : public testing::TestWithParam<BadGguf> {};
TEST_P(GgufRefusal, NamesFileAndField) {
  const TempDir dir;
  GgufBuilder tiny = TinyGguf();
  GetParam().spoil(tiny);
  ExpectRefused(dir.Write("bad.gguf", tiny.Build()), {"bad.gguf: ", GetParam().part});
}

constexpr auto kName = [](const auto& test) { return test.param.name; };
using F = GgufBuilder;

INSTANTIATE_TEST_SUITE_P(
    E9Tensors, GgufRefusal,
    testing::Values(BadGguf{"Missing", [](F& f) { f.RemoveTensor("blk.1.ffn_up.weight"); },
                            "tensor 'blk.1.ffn_up.weight': is missing"},
                    BadGguf{"EmbeddingMissing", [](F& f) { f.RemoveTensor("token_embd.weight"); },
                            "'token_embd.weight': is missing"},
                    BadGguf{"Transposed",
                            [](F& f) {
                              f.AddF32("blk.1.ffn_up.weight", {64, 32});
                            },
                            "'blk.1.ffn_up.weight': its shape is [32, 64], the config asks for [64, 32]"},
                    BadGguf{"BiasInOneLayerOnly", [](F& f) { f.AddF32("blk.0.attn_q.bias", {32}); },
                            "'blk.1.attn_q.bias': is missing"},
                    BadGguf{"HeadOfAnotherShape",
                            [](F& f) {
                              f.AddF32("output.weight", {32, 257});
                            },
                            "'output.weight': its shape is"},
                    BadGguf{"RopeFactorsShort", [](F& f) { f.AddF32("rope_freqs.weight", {3}); },
                            "'rope_freqs.weight': is not a vector"},
                    BadGguf{"RopeFactorZero",
                            [](F& f) {
                              f.At("rope_freqs.weight") = {"rope_freqs.weight", {4}, F::kF32, std::string(16, '\0')};
                            },
                            "'rope_freqs.weight': element 0 is 0"},
                    BadGguf{"RopeFactorNan",
                            [](F& f) {
                              f.At("rope_freqs.weight") = {"rope_freqs.weight",
                                                           {4},
                                                           F::kF32,
                                                           Raw(kNanF32) + Raw(kNanF32) + Raw(kNanF32) + Raw(kNanF32)};
                            },
                            "element 0 is nan"}),
    kName);

constexpr const char* kLayers = "llama.block_count";
INSTANTIATE_TEST_SUITE_P(
    E14Layers, GgufRefusal,
    testing::Values(
        BadGguf{"Zero", [](F& f) { f.Set(kLayers, 0); }, "'llama.block_count': 0 is out of range [1, 1024]"},
        BadGguf{"Negative", [](F& f) { f.SetInt(kLayers, -1); }, "-1 is out of range [1, 1024]"},
        BadGguf{"TwoTo31", [](F& f) { f.Set(kLayers, 1u << 31); }, "'llama.block_count': 2147483648 is out of"},
        BadGguf{"TwoTo64", [](F& f) { f.SetRaw(kLayers, F::kUint64, Raw(~0ull)); }, "'llama.block_count'"},
        BadGguf{"Billion", [](F& f) { f.Set(kLayers, 1'000'000'000); }, "[1, 1024]"},
        BadGguf{"MoreThanTensors", [](F& f) { f.Set(kLayers, 1024); }, "tensor 'blk.2."},
        BadGguf{"Float", [](F& f) { f.SetFloat(kLayers, 2); }, "'llama.block_count': is not an integer"},
        BadGguf{"Text", [](F& f) { f.SetText(kLayers, "2"); }, "'llama.block_count': is not an integer"},
        BadGguf{"Array", [](F& f) { f.SetInts(kLayers, {2}); }, "'llama.block_count': is not an integer"},
        BadGguf{"Missing", [](F& f) { f.Remove(kLayers); }, "'llama.block_count': is missing"}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    E15Shapes, GgufRefusal,
    testing::Values(
        BadGguf{"NoHeads", [](F& f) { f.Set("llama.attention.head_count", 0); }, "'llama.attention.head_count': 0"},
        BadGguf{"HeadsDoNotDivide", [](F& f) { f.Set("llama.attention.head_count", 5); },
                "5 does not divide the hidden size"},
        BadGguf{"MoreKvHeads", [](F& f) { f.Set("llama.attention.head_count_kv", 8); },
                "'llama.attention.head_count_kv': 8 is out of range [1, 4]"},
        BadGguf{"KvHeadsDoNotDivide", [](F& f) { f.Set("llama.attention.head_count_kv", 3); }, "3 does not divide"},
        BadGguf{"NoKvHeads", [](F& f) { f.Set("llama.attention.head_count_kv", 0); },
                "'llama.attention.head_count_kv': 0"},
        BadGguf{"HeadDim7", [](F& f) { f.Set("llama.attention.key_length", 7); }, "'llama.attention.key_length': 7"},
        BadGguf{"ValuesOfAnotherLength", [](F& f) { f.Set("llama.attention.value_length", 16); },
                "'llama.attention.value_length': 16 differs"},
        BadGguf{"NoHidden", [](F& f) { f.Set("llama.embedding_length", 0); }, "'llama.embedding_length': 0"},
        BadGguf{"HugeHidden", [](F& f) { f.Set("llama.embedding_length", 1u << 30); }, "'llama.embedding_length'"},
        BadGguf{"NoFfn", [](F& f) { f.Set("llama.feed_forward_length", 0); }, "'llama.feed_forward_length': 0"},
        BadGguf{"NoContext", [](F& f) { f.Set("llama.context_length", 0); }, "'llama.context_length': 0"},
        BadGguf{"EpsNan", [](F& f) { f.SetFloat("llama.attention.layer_norm_rms_epsilon", kNanF32); }, "epsilon': nan"},
        BadGguf{"EpsMissing", [](F& f) { f.Remove("llama.attention.layer_norm_rms_epsilon"); }, "epsilon': is missing"},
        BadGguf{"ThetaZero", [](F& f) { f.SetFloat("llama.rope.freq_base", 0); },
                "'llama.rope.freq_base': the rotary base 0"},
        BadGguf{"ThetaNan", [](F& f) { f.SetFloat("llama.rope.freq_base", kNanF32); }, "the rotary base nan"},
        BadGguf{"ThetaInfinite", [](F& f) { f.SetFloat("llama.rope.freq_base", INFINITY); }, "the rotary base inf"},
        BadGguf{"PartialRotation", [](F& f) { f.Set("llama.rope.dimension_count", 4); },
                "'llama.rope.dimension_count'"},
        BadGguf{"RopeFactorNan", [](F& f) { f.SetFloat("llama.rope.scale_linear", kNanF32); }, "factor nan"}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    E16Vocabulary, GgufRefusal,
    testing::Values(BadGguf{"SizeDiffersFromRows", [](F& f) { f.Set("llama.vocab_size", 259); },
                            "'llama.vocab_size': 259 differs from the 258 rows"},
                    BadGguf{"FewerRowsThanTokens",
                            [](F& f) {
                              f.Remove("llama.vocab_size").AddF32("token_embd.weight", {32, 257});
                            },
                            "'tokenizer.ggml.tokens': 258 tokens for the 257 rows"},
                    BadGguf{"EosAtVocabulary", [](F& f) { f.Set("tokenizer.ggml.eos_token_id", 258); },
                            "'tokenizer.ggml.eos_token_id': 258 is out of range [0, 257]"},
                    BadGguf{"EotAtVocabulary", [](F& f) { f.Set("tokenizer.ggml.eot_token_id", 258); },
                            "'tokenizer.ggml.eot_token_id'"},
                    BadGguf{"BosAtVocabulary", [](F& f) { f.Set("tokenizer.ggml.bos_token_id", 258); },
                            "'tokenizer.ggml.bos_token_id'"},
                    BadGguf{"BosHuge", [](F& f) { f.Set("tokenizer.ggml.bos_token_id", ~0u); },
                            "'tokenizer.ggml.bos_token_id'"},
                    BadGguf{"PadAtVocabulary", [](F& f) { f.Set("tokenizer.ggml.padding_token_id", 258); },
                            "'tokenizer.ggml.padding_token_id'"},
                    BadGguf{"NoEos", [](F& f) { f.Remove("tokenizer.ggml.eos_token_id"); },
                            "'tokenizer.ggml.eos_token_id': no end-of-sequence token"}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    Unsupported, GgufRefusal,
    testing::Values(
        BadGguf{"Architecture", [](F& f) { f.SetText("general.architecture", "mamba"); },
                "'general.architecture': 'mamba' is not supported; these are: llama, qwen2, qwen3, qwen3moe, "
                "gpt-oss, smollm3, olmo2, gemma2, gemma3, phi3, gptneox, starcoder2"},
        BadGguf{"ArchitectureMissing", [](F& f) { f.Remove("general.architecture"); },
                "'general.architecture': is missing"},
        BadGguf{
            "OneOfSeveralParts",
            [](F& f) {
              f.SetRaw("split.count", F::kUint16, Raw<uint16_t>(2)).SetRaw("split.no", F::kUint16, Raw<uint16_t>(0));
            },
            "'split.count'"},
        BadGguf{"RopeKind", [](F& f) { f.SetText("llama.rope.scaling.type", "longrope"); },
                "'longrope' is not supported"},
        BadGguf{"TensorType", [](F& f) { f.At("blk.0.ffn_up.weight").type = F::kIQ2_XXS; },
                "type IQ2_XXS is not supported"}),
    kName);

// E1, E3, E7, E12 from outside: what is wrong with the file as a whole.
struct BadBytes {
  const char* name;
  std::function<void(const std::string& path)> damage;
  std::string part;
};
class GgufDamage : public testing::TestWithParam<BadBytes> {};
TEST_P(GgufDamage, IsRefusedByName) {
  const TempDir dir;
  const std::string path = dir.Write("bad.gguf", TinyGguf().Build());
  GetParam().damage(path);
  ExpectRefused(path, {"bad.gguf: ", GetParam().part});
}

void Overwrite(const std::string& path, size_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at)).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

INSTANTIATE_TEST_SUITE_P(
    Experts, GgufRefusal,
    testing::Values(
        BadGguf{"ExpertsOfAFamilyWithout",
                [](F& f) {
                  f.SetText("general.architecture", "qwen2");
                  for (const char* key : {"embedding_length", "block_count", "attention.head_count",
                                          "feed_forward_length", "context_length"}) {
                    f.Set(std::string("qwen2.") + key, 8);
                  }
                  f.SetFloat("qwen2.attention.layer_norm_rms_epsilon", 1e-5f).Set("qwen2.expert_count", 8);
                },
                "'qwen2.expert_count': 8 is not supported for qwen2"},
        BadGguf{"ExpertsPerTokenMissing", [](F& f) { f.Set("llama.expert_count", 8); },
                "'llama.expert_used_count': is missing"},
        BadGguf{"ExpertsHuge", [](F& f) { f.Set("llama.expert_count", 1 << 30).Set("llama.expert_used_count", 2); },
                "'llama.expert_count': 1073741824 is out of range [0, 1024]"},
        BadGguf{"MoreExpertsPerTokenThanThereAre",
                [](F& f) { f.Set("llama.expert_count", 8).Set("llama.expert_used_count", 9); },
                "'llama.expert_used_count': 9 is out of range [1, 8]"},
        BadGguf{"SharedExperts",
                [](F& f) {
                  f.Set("llama.expert_count", 8).Set("llama.expert_used_count", 2).Set("llama.expert_shared_count", 1);
                },
                "'llama.expert_shared_count': is not supported"},
        BadGguf{"ExpertsScaled",
                [](F& f) {
                  f.Set("llama.expert_count", 8).Set("llama.expert_used_count", 2);
                  f.SetFloat("llama.expert_weights_scale", 2.5f);
                },
                "'llama.expert_weights_scale': 2.5 is not supported"},
        BadGguf{"ExpertsBySigmoid",
                [](F& f) {
                  f.Set("llama.expert_count", 8).Set("llama.expert_used_count", 2).Set("llama.expert_gating_func", 2);
                },
                "'llama.expert_gating_func': 2 is not supported"},
        BadGguf{"ExpertsBySomethingNew",
                [](F& f) {
                  f.Set("llama.expert_count", 8).Set("llama.expert_used_count", 2).Set("llama.expert_gating_func", 4);
                },
                "'llama.expert_gating_func': 4 is not supported"},
        BadGguf{"ExpertsBySoftmaxOfTheChosen",
                [](F& f) {
                  f.Set("llama.expert_count", 8).Set("llama.expert_used_count", 2).Set("llama.expert_gating_func", 3);
                },
                "tensor 'blk.0.ffn_gate_inp.weight': is missing"},
        BadGguf{"ExpertsMissing", [](F& f) { f.Set("llama.expert_count", 8).Set("llama.expert_used_count", 2); },
                "tensor 'blk.0.ffn_gate_inp.weight': is missing"}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    , GgufDamage,
    testing::Values(
        BadBytes{"Absent", [](auto& path) { std::filesystem::remove(path); }, "No such file"},
        BadBytes{"Bytes0", [](auto& path) { std::filesystem::resize_file(path, 0); }, "is not a GGUF file"},
        BadBytes{"Bytes8", [](auto& path) { std::filesystem::resize_file(path, 8); }, "tensor_count"},
        BadBytes{"CutInTheData", [](auto& path) { std::filesystem::resize_file(path, 60000); },
                 "pass the end of the file"},
        BadBytes{"TensorCountHuge", [](auto& path) { Overwrite(path, 8, Raw(1ull << 62)); }, "tensor_count"},
        BadBytes{"KeyCountHuge", [](auto& path) { Overwrite(path, 16, Raw(1ull << 62)); }, "metadata_kv_count"},
        BadBytes{"APipe",
                 [](auto& path) {
                   std::filesystem::remove(path);
                   ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
                 },
                 "is not a regular file"},
        BadBytes{"ADeviceBehindALink",
                 [](auto& path) {
                   std::filesystem::remove(path);
                   std::filesystem::create_symlink("/dev/zero", path);
                 },
                 "is not a regular file"}),
    kName);

}  // namespace
}  // namespace hydrant
