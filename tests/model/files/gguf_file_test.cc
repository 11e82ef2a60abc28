#include "model/files/gguf_file.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <string>

#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();

TEST(GgufFile, ReadsEveryScalarType) {
  GgufBuilder builder;
  builder.SetRaw("u8", GgufBuilder::kUint8, Raw<uint8_t>(200))
      .SetRaw("i8", GgufBuilder::kInt8, Raw<int8_t>(-3))
      .SetRaw("u16", GgufBuilder::kUint16, Raw<uint16_t>(60000))
      .SetRaw("i16", GgufBuilder::kInt16, Raw<int16_t>(-300))
      .Set("u32", 4'000'000'000)
      .SetInt("i32", -70000)
      .SetRaw("u64", GgufBuilder::kUint64, Raw<uint64_t>(1ull << 40))
      .SetRaw("u64max", GgufBuilder::kUint64, Raw<uint64_t>(~0ull))
      .SetRaw("i64", GgufBuilder::kInt64, Raw<int64_t>(kInt64Min))
      .SetFloat("f32", 0.5f)
      .SetRaw("f64", GgufBuilder::kFloat64, Raw(0.1))
      .SetBool("yes", true)
      .SetText("text", "a\0b");
  const std::string bytes = builder.Build();
  const auto file = GgufFile::Parse(bytes, "x.gguf");
  ASSERT_THAT(file, IsOk());
  const std::pair<const char*, int64_t> integers[] = {
      {"u8", 200},     {"i8", -3},         {"u16", 60000},        {"i16", -300},     {"u32", 4'000'000'000},
      {"i32", -70000}, {"u64", 1ll << 40}, {"u64max", kInt64Max}, {"i64", kInt64Min}};
  for (const auto& [key, value] : integers) EXPECT_EQ(**file->Int(key, kInt64Min, kInt64Max), value) << key;
  EXPECT_EQ(**file->Float("f32"), 0.5);
  EXPECT_EQ(**file->Float("f64"), 0.1);
  EXPECT_EQ(**file->Bool("yes"), true);
  EXPECT_EQ(**file->String("text"), "a");
  EXPECT_FALSE(file->Int("absent", 0, 1)->has_value());
  EXPECT_TRUE(file->Has("u8"));
}

TEST(GgufFile, ReadsArrays) {
  GgufBuilder builder;
  builder.SetTexts("texts", {"a", "", "ccc"}).SetInts("ints", {1, -2}).SetTexts("none", {});
  const std::string bytes = builder.Build();
  const auto file = GgufFile::Parse(bytes, "x.gguf");
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(**file->Strings("texts"), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_EQ(**file->Ints("ints", 2), (std::vector<int64_t>{1, -2}));
  EXPECT_TRUE((*file->Strings("none"))->empty());
}

TEST(GgufFile, NamesTheKeyOfAWrongTypeOrRange) {
  GgufBuilder builder;
  builder.Set("n", 7).SetText("t", "x").SetInts("a", {1});
  const std::string bytes = builder.Build();
  const auto file = GgufFile::Parse(bytes, "x.gguf");
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->Int("n", 8, 9), RefusedWith("x.gguf: 'n': 7 is out of range [8, 9]"));
  EXPECT_THAT(file->Int("t", 0, 9), RefusedWith("'t': is not an integer"));
  EXPECT_THAT(file->Int("a", 0, 9), RefusedWith("'a': is not an integer"));
  EXPECT_THAT(file->Float("n"), RefusedWith("'n': is not a floating-point number"));
  EXPECT_THAT(file->Bool("n"), RefusedWith("'n': is not a bool"));
  EXPECT_THAT(file->String("n"), RefusedWith("'n': is not a string"));
  EXPECT_THAT(file->Strings("a"), RefusedWith("'a': is not an array of strings"));
  EXPECT_THAT(file->Ints("t", 9), RefusedWith("'t': is not an array of integers"));
  EXPECT_THAT(file->Ints("a", 0), RefusedWith("'a': has 1 elements; at most 0 make sense"));
}

TEST(GgufFile, ListsTensorsSlowestDimensionFirst) {
  GgufBuilder builder;
  builder.AddF32("m", {32, 3}).AddF32("v", {5});
  builder.At("q") = {"q", {64, 2}, GgufBuilder::kQ4_1, std::string(80, 'q')};
  const std::string bytes = builder.Build();
  const auto file = GgufFile::Parse(bytes, "x.gguf");
  ASSERT_THAT(file, IsOk());
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->tensors()[0].shape, (std::vector<int64_t>{3, 32}));
  EXPECT_EQ(file->tensors()[0].data, builder.tensors()[0].data);
  EXPECT_EQ(file->tensors()[1].shape, std::vector<int64_t>{5});
  EXPECT_EQ(file->tensors()[2].format, WeightFormat::kQ4_1);
  EXPECT_EQ(file->tensors()[2].data, std::string(80, 'q'));
}

struct Corruption {
  const char* name;
  std::function<std::string()> bytes;
  const char* named;
};
class GgufFileRefusal : public testing::TestWithParam<Corruption> {};

TEST_P(GgufFileRefusal, NamesFileAndField) {
  EXPECT_THAT(GgufFile::Parse(GetParam().bytes(), "x.gguf"), RefusedWith("x.gguf: ", GetParam().named));
}

std::string Header(uint32_t version, uint64_t tensors, uint64_t keys) {
  return "GGUF" + Raw(version) + Raw(tensors) + Raw(keys);
}

std::string KeyOf(const std::string& key, uint32_t type, const std::string& payload) {
  return Header(3, 0, 1) + GgufBuilder::Text(key) + Raw(type) + payload;
}

std::string TensorOf(const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset, size_t data_bytes = 4096) {
  std::string out = Header(3, 1, 0) + GgufBuilder::Text("t") + Raw(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims) out += Raw(dim);
  out += Raw(type) + Raw(offset);
  out.resize((out.size() + 31) / 32 * 32 + data_bytes);
  return out;
}

INSTANTIATE_TEST_SUITE_P(
    , GgufFileRefusal,
    testing::Values(
        Corruption{"Empty", [] { return std::string(); }, "no magic"},
        Corruption{"WrongMagic", [] { return std::string("GGML\3\0\0\0", 8); }, "no magic"},
        Corruption{"MagicOnly", [] { return std::string("GGUF"); }, "version"},
        Corruption{"Version1", [] { return Header(1, 0, 0); }, "version: 1 is not supported"},
        Corruption{"Version4", [] { return Header(4, 0, 0); }, "version: 4 is not supported"},
        Corruption{"BigEndian", [] { return Header(3u << 24, 0, 0); }, "big-endian"},
        Corruption{"CountsCutOff", [] { return Header(3, 0, 0).substr(0, 20); }, "metadata_kv_count"},
        Corruption{"TensorCountHuge", [] { return Header(3, ~0ull, 0); }, "tensor_count"},
        Corruption{"TensorCountBeyondFile", [] { return Header(3, 60000, 0); },
                   "tensor_count: 60000 tensors pass the end"},
        Corruption{"KeyCountHuge", [] { return Header(3, 0, 1ull << 40); }, "metadata_kv_count"},
        Corruption{"KeyCountBeyondFile", [] { return Header(3, 0, 9); }, "metadata key 0"},
        Corruption{"KeyLengthHuge", [] { return Header(3, 0, 1) + Raw(~0ull) + "k"; },
                   "metadata key 0: passes the end"},
        Corruption{"KeyEmpty", [] { return KeyOf("", 4, Raw(1u)); }, "metadata key 0: has 0 bytes"},
        Corruption{"KeyLong", [] { return KeyOf(std::string(5000, 'k'), 4, Raw(1u)); },
                   "metadata key 0: has 5000 bytes"},
        Corruption{"KeyTwice",
                   [] {
                     return Header(3, 0, 2) + (GgufBuilder::Text("k") + Raw(4u) + Raw(1u)) +
                            (GgufBuilder::Text("k") + Raw(4u) + Raw(1u));
                   },
                   "'k': appears twice"},
        Corruption{"ValueTypeUnknown", [] { return KeyOf("k", 13, Raw(1u)); }, "'k': value type 13 is not known"},
        Corruption{"ValueCutOff", [] { return KeyOf("k", 10, Raw(1u)); }, "'k': passes the end"},
        Corruption{"BoolNeither", [] { return KeyOf("k", 7, "\2"); }, "'k': a bool is neither 0 nor 1"},
        Corruption{"StringLengthHuge", [] { return KeyOf("k", 8, Raw(1ull << 63)); }, "'k': passes the end"},
        Corruption{"ArrayCountHuge", [] { return KeyOf("k", 9, Raw(4u) + Raw(~0ull)); }, "'k': passes the end"},
        Corruption{"ArrayCountWraps", [] { return KeyOf("k", 9, Raw(10u) + Raw((1ull << 61) + 1) + Raw(0ull)); },
                   "'k': passes the end"},
        Corruption{"ArrayOfStringsCutOff", [] { return KeyOf("k", 9, Raw(8u) + Raw(3ull) + GgufBuilder::Text("a")); },
                   "'k': passes the end"},
        Corruption{"ArrayOfArrays", [] { return KeyOf("k", 9, Raw(9u) + Raw(1ull)); }, "arrays of arrays"},
        Corruption{"AlignmentZero", [] { return KeyOf("general.alignment", 4, Raw(0u)); }, "'general.alignment'"},
        Corruption{"AlignmentOdd", [] { return KeyOf("general.alignment", 4, Raw(48u)); }, "not a power of two"},
        Corruption{"TensorCutOff", [] { return TensorOf({32}, 0, 0).substr(0, 40); }, "tensor"},
        Corruption{"TensorRankZero", [] { return TensorOf({}, 0, 0); }, "tensor 't': has 0 dimensions"},
        Corruption{"TensorRankFive",
                   [] {
                     return TensorOf({1, 1, 1, 1, 1}, 0, 0);
                   },
                   "has 5 dimensions"},
        Corruption{"TensorDimensionZero",
                   [] {
                     return TensorOf({32, 0}, 0, 0);
                   },
                   "dimension 1 is 0"},
        Corruption{"TensorDimensionNegative", [] { return TensorOf({~0ull}, 0, 0); }, "dimension 0 is"},
        Corruption{"TensorShapeWraps",
                   [] {
                     return TensorOf({4194305, 4194305, 211106198978564}, 0, 0);
                   },
                   "too many elements"},
        Corruption{"TensorBytesWrap", [] { return TensorOf({1ull << 62}, 0, 0); }, "too many elements"},
        Corruption{"TensorTypeUnknown", [] { return TensorOf({32}, 77, 0); }, "type 77 is not known"},
        Corruption{"TensorTypeNotRead", [] { return TensorOf({256}, 16, 0); }, "type IQ2_XXS is not supported"},
        Corruption{"TensorRowNotWholeBlocks", [] { return TensorOf({48}, 3, 0); }, "not whole Q4_1 blocks"},
        Corruption{"TensorOffsetUnaligned", [] { return TensorOf({32}, 0, 8); }, "offset 8 is not a multiple of 32"},
        Corruption{"TensorOffsetBeyondFile", [] { return TensorOf({32}, 0, 1 << 20); }, "pass the end of the file"},
        Corruption{"TensorAfterAGap", [] { return TensorOf({32}, 0, 32); },
                   "offset 32 is not 0, where its neighbour ends"},
        Corruption{"TensorsOverlap",
                   [] {
                     const std::string dims = Raw(1u) + Raw(32ull) + Raw(0u) + Raw(0ull);
                     return Header(3, 2, 0) + GgufBuilder::Text("a") + dims + GgufBuilder::Text("b") + dims +
                            std::string(512, '\0');
                   },
                   "tensor 'b': offset 0 is not 128, where its neighbour ends"},
        Corruption{"TensorOffsetHuge", [] { return TensorOf({32}, 0, ~31ull); }, "pass the end of the file"},
        Corruption{"TensorEndBeyondFile", [] { return TensorOf({32}, 0, 4096 - 96); }, "pass the end of the file"},
        Corruption{"DataCutOff",
                   [] {
                     const std::string all = TinyGguf().Build();
                     return all.substr(0, all.size() - 33);
                   },
                   "pass the end of the file"},
        Corruption{"NoData", [] { return TensorOf({32}, 0, 0, 0).substr(0, 57); }, "pass the end of the file"},
        Corruption{"TensorTwice",
                   [] {
                     const std::string tensor = GgufBuilder::Text("t") + Raw(1u) + Raw(1ull) + Raw(0u) + Raw(0ull);
                     return Header(3, 2, 0) + tensor + tensor + std::string(64, '\0');
                   },
                   "tensor 't': appears twice"}),
    [](const auto& test) { return test.param.name; });

// A row that ends within a block, a tensor that ends behind the file, and one that ends with it.
TEST(GgufFile, HoldsEveryQuantisedTypeToItsBlocks) {
  const std::pair<uint32_t, WeightFormat> numbers[] = {
      {2, WeightFormat::kQ4_0},   {3, WeightFormat::kQ4_1},  {6, WeightFormat::kQ5_0},    {7, WeightFormat::kQ5_1},
      {8, WeightFormat::kQ8_0},   {10, WeightFormat::kQ2_K}, {11, WeightFormat::kQ3_K},   {12, WeightFormat::kQ4_K},
      {13, WeightFormat::kQ5_K},  {14, WeightFormat::kQ6_K}, {20, WeightFormat::kIQ4_NL}, {23, WeightFormat::kIQ4_XS},
      {39, WeightFormat::kMXFP4},
  };
  size_t quantised = 0;
  for (const WeightFormatInfo& info : kWeightFormats) quantised += info.block_elements > 1 ? 1 : 0;
  EXPECT_EQ(std::size(numbers), quantised);
  for (const auto& [number, format] : numbers) {
    const WeightFormatInfo& info = InfoOf(format);
    const auto cols = static_cast<uint64_t>(info.block_elements);
    const auto bytes = static_cast<size_t>(3 * 2 * info.block_bytes);
    const std::string whole = TensorOf({2 * cols, 3}, number, 0, bytes);
    const auto file = GgufFile::Parse(whole, "x.gguf");
    ASSERT_THAT(file, IsOk()) << info.name;
    EXPECT_EQ(file->tensors()[0].format, format);
    EXPECT_EQ(file->tensors()[0].data.size(), bytes);
    EXPECT_THAT(GgufFile::Parse(whole.substr(0, whole.size() - 1), "x.gguf"),
                RefusedWith("tensor 't': offset 0 and", "pass the end of the file"));
    for (const uint64_t odd : {uint64_t{1}, cols - 1, cols + 1, 3 * cols / 2}) {
      // All rows together are whole blocks, and refused all the same.
      EXPECT_THAT(GgufFile::Parse(TensorOf({odd, cols}, number, 0, 1 << 20), "x.gguf"),
                  RefusedWith("tensor 't': rows of", std::string("not whole ") + std::string(info.name) + " blocks"));
    }
  }
}

// Every prefix and a bit flipped anywhere: accepted or refused, never a crash, and whatever is accepted lies inside.
TEST(GgufFile, SurvivesEveryPrefixAndRandomDamage) {
  const std::string sound = TinyGguf().Build();
  const std::string head = sound.substr(0, 12000);
  for (size_t length = 0; length < head.size(); length += 7)
    EXPECT_FALSE(GgufFile::Parse(sound.substr(0, length), "x").ok());
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = sound;
    for (int i = 0; i < 3; ++i) damaged[random() % 8000] ^= static_cast<char>(1u << random() % 8);
    const auto file = GgufFile::Parse(damaged, "x");
    if (!file.ok()) continue;
    for (const RawTensor& tensor : file->tensors()) {
      ASSERT_GE(tensor.data.data(), damaged.data());
      ASSERT_LE(tensor.data.data() + tensor.data.size(), damaged.data() + damaged.size());
    }
  }
}

}  // namespace
}  // namespace hydrant
