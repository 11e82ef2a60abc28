// Experts of directories in MXFP4: a matrix for each, and what does not fit is refused by name.
#include "model/checkpoint/mxfp4_tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "model/files/safetensors_file.h"
#include "tests/model/checkpoint/expanded_rows.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

// What JoinMxfp4 makes of a file.
struct JoinedExperts {
  explicit JoinedExperts(const std::vector<TestTensor>& parts)
      : file(SafetensorsBytes(parts)), tensors(*ParseSafetensors(file, "m.safetensors")), status(JoinMxfp4(tensors)) {}

  std::string file;
  std::vector<RawTensor> tensors;
  absl::Status status;
};

// Two experts of three rows of 64: code i of a row is (i + row + 5 * expert) % 16, the scales of a row 2^(row - 1) and 2^-1.
std::vector<TestTensor> Mxfp4Parts(const std::string& name) {
  std::string blocks, scales;
  for (int expert = 0; expert < 2; ++expert) {
    for (int row = 0; row < 3; ++row) {
      const auto code = [&](int i) { return (i + row + 5 * expert) % 16; };
      for (int byte = 0; byte < 32; ++byte) {
        blocks += static_cast<char>(code(2 * byte) | code(2 * byte + 1) << 4);
      }
      scales += static_cast<char>(126 + row);
      scales += static_cast<char>(126);
    }
  }
  return {{name + "_blocks", "U8", {2, 3, 2, 16}, blocks}, {name + "_scales", "U8", {2, 3, 2}, scales}};
}

TEST(Mxfp4Tensors, BecomeAMatrixPerExpert) {
  constexpr float kNumbers[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  std::vector<TestTensor> parts = Mxfp4Parts("l.0.gate_up");
  parts.push_back(RandomTensor("l.0.gate_up_bias", {2, 3}));
  const JoinedExperts joined(parts);
  ASSERT_THAT(joined.status, IsOk());
  ASSERT_EQ(joined.tensors.size(), 3u);
  EXPECT_EQ(joined.tensors[0].name, "l.0.gate_up_bias");
  for (const int expert : {0, 1}) {
    const RawTensor& matrix = joined.tensors[static_cast<size_t>(expert) + 1];
    EXPECT_EQ(matrix.name, "l.0." + std::to_string(expert) + ".gate_up");
    EXPECT_EQ(matrix.format, WeightFormat::kMXFP4);
    ASSERT_EQ(matrix.shape, (std::vector<int64_t>{3, 64}));
    std::vector<float> expected;
    for (int row = 0; row < 3; ++row) {
      for (int i = 0; i < 64; ++i) {
        expected.push_back(std::ldexp(kNumbers[(i + row + 5 * expert) % 16], i < 32 ? row - 1 : -1));
      }
    }
    EXPECT_EQ(ExpandedRows(matrix, 0, 3), expected);
    EXPECT_EQ(ExpandedRows(matrix, 1, 2), std::vector<float>(expected.begin() + 64, expected.begin() + 128));
  }
}

TEST(Mxfp4Tensors, AreRefusedIfTheyDoNotFit) {
  struct WrongExperts {
    std::function<void(std::vector<TestTensor>&)> change;
    std::string part;
  };
  const WrongExperts wrongs[] = {
      {[](auto& t) { t.pop_back(); }, "tensor 'x_scales': is missing"},
      {[](auto& t) {
         t = {RandomTensor("x", {4, 32})};
       },
       "no matrix is stored in the way that quantization_config says"},
      {[](auto& t) { t[0].dtype = "I8"; }, "tensor 'x_blocks': dtype I8 is not U8"},
      {[](auto& t) {
         t[1] = RandomTensor("x_scales", {2, 3, 2});
       },
       "tensor 'x_scales': dtype F32 is not U8"},
      {[](auto& t) {
         t[0].shape = {2, 3, 32};
       },
       "its shape is [2, 3, 32], which is not [experts, rows, blocks, 16]"},
      {[](auto& t) {
         t[0].shape = {2, 3, 4, 8};
       },
       "its shape is [2, 3, 4, 8], which is not"},
      {[](auto& t) {
         t[0] = {"x_blocks", "U8", {0, 3, 2, 16}, ""};
       },
       "its shape is [0, 3, 2, 16], which is not"},
      {[](auto& t) {
         t[1].shape = {2, 2, 3};
       },
       "tensor 'x_scales': its shape is [2, 2, 3], that of 'x_blocks' asks for"},
      {[](auto& t) {
         t.push_back(RandomTensor("x", {2, 3}));
       },
       "tensor 'x_blocks': 'x' is there as well"},
      {[](auto& t) {
         t.push_back(RandomTensor("1.x", {2, 3}));
       },
       "tensor 'x_blocks': '1.x' is there as well"},
      {[](auto& t) {
         t = {{"x_blocks", "U8", {1025, 1, 1, 16}, std::string(1025 * 16, '\0')},
              {"x_scales", "U8", {1025, 1, 1}, std::string(1025, '\0')}};
       },
       "tensor 'x_blocks': 1025 experts are more than 1024"},
  };
  for (const WrongExperts& wrong : wrongs) {
    std::vector<TestTensor> parts = Mxfp4Parts("x");
    wrong.change(parts);
    EXPECT_THAT(JoinedExperts(parts).status, RefusedWith("m.safetensors: ", wrong.part));
  }
}

}  // namespace
}  // namespace hydrant
