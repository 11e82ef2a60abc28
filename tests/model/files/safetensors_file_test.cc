#include "model/files/safetensors_file.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

TEST(SafetensorsFile, ListsTensors) {
  const std::string bytes = SafetensorsBytes(std::vector<TestTensor>{{"b", "BF16", {2, 3}, std::string(12, 'b')},
                                                                     {"a", "F32", {2}, std::string(8, 'a')},
                                                                     {"i", "I64", {1}, std::string(8, 'i')},
                                                                     {"none", "F16", {0, 4}, ""}});
  const auto tensors = ParseSafetensors(bytes, "m");
  ASSERT_THAT(tensors, IsOk());
  ASSERT_EQ(tensors->size(), 4u);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].data, std::string(8, 'a'));
  EXPECT_EQ((*tensors)[1].format, WeightFormat::kBF16);
  EXPECT_EQ((*tensors)[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*tensors)[2].refused_type, "I64");
}

TEST(SafetensorsFile, MayPadItsHeaderWithSpaces) {
  EXPECT_THAT(
      ParseSafetensors(SafetensorsBytes(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}    )", "abcd"), "m"),
      IsOk());
}

// As the safetensors library does; other white space than spaces is in no published file.
TEST(SafetensorsFile, MayEndItsHeaderInAnyWhiteSpaceAndHaveNoMetadata) {
  for (const std::string_view after : {" ", "\n", "\t", "\r\n"}) {
    EXPECT_THAT(ParseSafetensors(SafetensorsBytes("{\"__metadata__\":null}" + std::string(after), ""), "m"), IsOk());
  }
}

// In time linear in their number: looking up a field must not look for its path, which only messages need.
TEST(SafetensorsFile, ListsAsManyTensorsAsTheLargestModelsHave) {
  std::string header = "{";
  for (int i = 0; i < 50'000; ++i) {
    header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  }
  const auto tensors = ParseSafetensors(SafetensorsBytes(header + "}", ""), "m");
  ASSERT_THAT(tensors, IsOk());
  EXPECT_EQ(tensors->size(), 50'000u);
}

struct BadTensors {
  const char* name;
  std::string bytes;
  const char* named;
};
class SafetensorsRefusal : public testing::TestWithParam<BadTensors> {};

TEST_P(SafetensorsRefusal, NamesFileAndField) {
  EXPECT_THAT(ParseSafetensors(GetParam().bytes, "m.safetensors"), RefusedWith("m.safetensors: ", GetParam().named));
}

// A file of one tensor 't' whose header entry is `entry`, and 16 bytes of data.
std::string One(const std::string& entry) { return SafetensorsBytes("{\"t\":" + entry + "}", std::string(16, 'd')); }
std::string Length(uint64_t length, size_t rest) { return Raw(length) + std::string(rest, ' '); }

INSTANTIATE_TEST_SUITE_P(
    E1Header, SafetensorsRefusal,
    testing::Values(
        BadTensors{"Bytes0", "", "header length: the file has 0 bytes"},
        BadTensors{"Bytes7", std::string(7, '\0'), "has 7 bytes"},
        BadTensors{"Bytes8", Raw<uint64_t>(0), "not valid JSON"},
        BadTensors{"Length0", Length(0, 10), "not valid JSON"}, BadTensors{"Length1", Length(1, 10), "not valid JSON"},
        BadTensors{"Length2To63", Length(1ull << 63, 10), "header length"},
        BadTensors{"LengthMax", Length(~0ull, 10), "header length"},
        BadTensors{"LengthFileSize", Length(18, 10), "header length: 18 bytes pass the end"},
        BadTensors{"LengthOneTooMany", Length(11, 10), "header length: 11 bytes pass the end"},
        BadTensors{"LengthOver100MB", Length(100'000'001, 10), "at most 100000000"},
        BadTensors{"NotAnObject", SafetensorsBytes("[]", ""), "is not an object"},
        BadTensors{"SpaceFirst", SafetensorsBytes(" {}", ""), "header: begins with white space and not with '{'"},
        BadTensors{"LineFirst", SafetensorsBytes("\n{}", ""), "header: begins with white space"},
        BadTensors{"TabFirst", SafetensorsBytes("\t{}", ""), "header: begins with white space"},
        BadTensors{"ByteOrderMark", SafetensorsBytes("\xEF\xBB\xBF{}", ""), "begins with a byte order mark"},
        BadTensors{"NulAtTheEnd", SafetensorsBytes(std::string("{}\0", 3), ""), "not valid JSON at byte 3"},
        BadTensors{"NotJson", SafetensorsBytes("{\"t\":", ""), "not valid JSON"},
        BadTensors{"DepthBomb", SafetensorsBytes(std::string(100'000, '['), ""), "deeper than 8"},
        BadTensors{"TensorTwice",
                   SafetensorsBytes(R"({"t":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"t":{}})", ""),
                   "'t' appears twice"},
        BadTensors{"MetadataNotStrings", SafetensorsBytes(R"({"__metadata__":{"a":1}})", ""), "__metadata__.a"},
        BadTensors{"DataAfterTheLast", SafetensorsBytes("{}", "x"), "end 1 bytes before the file does"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    E3Offsets, SafetensorsRefusal,
    testing::Values(
        BadTensors{"Negative", One(R"({"dtype":"F32","shape":[4],"data_offsets":[-16,0]})"),
                   "t.data_offsets[0]': -16 is out of range"},
        BadTensors{"BeginAfterEnd", One(R"({"dtype":"F32","shape":[4],"data_offsets":[16,0]})"),
                   "[16, 0] are not inside"},
        BadTensors{"EndAfterFile", One(R"({"dtype":"F32","shape":[4],"data_offsets":[4,20]})"),
                   "[4, 20] are not inside"},
        BadTensors{"Huge", One(R"({"dtype":"F32","shape":[4],"data_offsets":[0,18446744073709551615]})"),
                   "is out of range"},
        BadTensors{"Floats", One(R"({"dtype":"F32","shape":[4],"data_offsets":[0.0,16.0]})"), "is not an integer"},
        BadTensors{"Strings", One(R"({"dtype":"F32","shape":[4],"data_offsets":["0","16"]})"), "is not an integer"},
        BadTensors{"Three", One(R"({"dtype":"F32","shape":[4],"data_offsets":[0,8,16]})"), "not an array of two"},
        BadTensors{"Missing", One(R"({"dtype":"F32","shape":[4]})"), "t.data_offsets': is missing"},
        BadTensors{
            "Overlap",
            SafetensorsBytes(
                R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                std::string(12, 'd')),
            "tensor 'b': data_offsets overlap"},
        BadTensors{"Gap", One(R"({"dtype":"F32","shape":[3],"data_offsets":[4,16]})"), "leave a gap"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    E5Shape, SafetensorsRefusal,
    testing::Values(
        BadTensors{"Wraps", One(R"({"dtype":"F32","shape":[4194305,4194305,211106198978564],"data_offsets":[0,16]})"),
                   "too many elements"},
        BadTensors{"Negative", One(R"({"dtype":"F32","shape":[-4],"data_offsets":[0,16]})"), "-4 is out of range"},
        BadTensors{"Float", One(R"({"dtype":"F32","shape":[4.0],"data_offsets":[0,16]})"), "is not an integer"},
        BadTensors{"NoArray", One(R"({"dtype":"F32","shape":4,"data_offsets":[0,16]})"), "shape is not an array"},
        BadTensors{"NineDimensions", One(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,16]})"),
                   "at most 8"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    E7Dtype, SafetensorsRefusal,
    testing::Values(
        BadTensors{"Unknown", One(R"({"dtype":"F33","shape":[4],"data_offsets":[0,16]})"), "dtype 'F33' is not known"},
        BadTensors{"Number", One(R"({"dtype":32,"shape":[4],"data_offsets":[0,16]})"), "t.dtype': is not a string"},
        BadTensors{"Missing", One(R"({"shape":[4],"data_offsets":[0,16]})"), "t.dtype': is missing"},
        BadTensors{"TooShort", One(R"({"dtype":"F32","shape":[5],"data_offsets":[0,16]})"),
                   "span 16 bytes; its dtype and shape take 20"},
        BadTensors{"TooLong", One(R"({"dtype":"BF16","shape":[4],"data_offsets":[0,16]})"), "take 8"},
        BadTensors{"EntryNoObject", One("7"), "'t': is not an object"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace hydrant
