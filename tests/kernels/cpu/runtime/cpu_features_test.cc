#include "kernels/cpu/runtime/cpu_features.h"

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

namespace hydrant {
namespace {

class CpuFeaturesTest : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("HYDRANT_CPU_ISA"); }
};

TEST_F(CpuFeaturesTest, ChoosesTheBestSupportedSet) {
  unsetenv("HYDRANT_CPU_ISA");
  EXPECT_EQ(ChooseIsa().value(), SupportedIsas().back());
  setenv("HYDRANT_CPU_ISA", "", 1);
  EXPECT_EQ(ChooseIsa().value(), SupportedIsas().back());
}

TEST_F(CpuFeaturesTest, TheVariableForcesASupportedSet) {
  for (CpuIsa isa : SupportedIsas()) {
    setenv("HYDRANT_CPU_ISA", IsaName(isa), 1);
    EXPECT_EQ(ChooseIsa().value(), isa);
  }
}

TEST_F(CpuFeaturesTest, AnUnknownNameIsRefusedByName) {
  setenv("HYDRANT_CPU_ISA", "sse9", 1);
  const auto isa = ChooseIsa();
  EXPECT_EQ(isa.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(isa.status().message()).find("sse9"), std::string::npos);
}

TEST_F(CpuFeaturesTest, AnUnsupportedSetIsRefused) {
  for (CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvxVnni, CpuIsa::kAvx512, CpuIsa::kAvx512Vnni, CpuIsa::kAvx512Bf16}) {
    if (IsaSupported(isa)) continue;
    setenv("HYDRANT_CPU_ISA", IsaName(isa), 1);
    EXPECT_EQ(ChooseIsa().status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace hydrant
