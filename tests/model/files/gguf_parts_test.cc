#include "model/files/gguf_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using F = GgufBuilder;

std::vector<std::string> NamesOf(const GgufParts& parts) {
  std::vector<std::string> names;
  for (const RawTensor& tensor : parts.tensors()) names.push_back(tensor.name);
  return names;
}

// Three parts of a model with three tensors, the first without any, as `gguf-split --no-tensor-first-split` leaves it.
class GgufPartsTest : public testing::Test {
 protected:
  GgufPartsTest() {
    for (uint16_t i = 0; i < 3; ++i) {
      parts_[i].SetRaw("split.no", F::kUint16, Raw(i)).SetRaw("split.count", F::kUint16, Raw<uint16_t>(3));
      parts_[i].SetInt("split.tensors.count", 3);
    }
    parts_[0].SetText("general.architecture", "llama");
    parts_[1].AddF32("a", {32, 2});
    parts_[2].AddF32("b", {32}).AddF32("c", {32});
  }
  std::string NameOf(int part) const { return "m-0000" + std::to_string(part) + "-of-00003.gguf"; }
  absl::StatusOr<GgufParts> Open(int named = 1) {
    for (int i = 0; i < 3; ++i) dir_.Write(NameOf(i + 1), parts_[i].Build());
    if (!without_.empty()) std::filesystem::remove(dir_.File(without_));
    return GgufParts::Open(dir_.File(NameOf(named)));
  }

  TempDir dir_;
  GgufBuilder parts_[3];
  std::string without_;
};

TEST_F(GgufPartsTest, HaveTheTensorsOfAllAndTheMetadataOfTheFirst) {
  const auto opened = Open();
  ASSERT_THAT(opened, IsOk());
  EXPECT_THAT(NamesOf(*opened), testing::ElementsAre("a", "b", "c"));
  EXPECT_EQ(opened->tensors()[1].data, parts_[2].tensors()[0].data);
  EXPECT_EQ(opened->tensors()[2].file, NameOf(3));
  EXPECT_EQ(**opened->metadata().String("general.architecture"), "llama");
}

TEST(GgufParts, OneFileIsAll) {
  const TempDir dir;
  for (const uint16_t count : {0, 1}) {
    GgufBuilder file;
    file.AddF32("a", {32}).SetRaw("split.count", F::kUint16, Raw(count));
    const auto opened = GgufParts::Open(dir.Write("m.gguf", file.Build()));
    ASSERT_THAT(opened, IsOk());
    EXPECT_THAT(NamesOf(*opened), testing::ElementsAre("a"));
  }
}

TEST_F(GgufPartsTest, AnotherThanTheFirstIsRefused) {
  EXPECT_THAT(Open(2), RefusedWith("m-00002-of-00003.gguf: 'split.no': is part 2 of 3; name the first one"));
}

TEST_F(GgufPartsTest, APartThatIsMissingIsNamed) {
  without_ = NameOf(3);
  EXPECT_THAT(Open().status().message(), testing::HasSubstr("m-00003-of-00003.gguf: no such file"));
}

TEST_F(GgufPartsTest, APartOfAnotherModelIsRefused) {
  parts_[2].SetRaw("split.no", F::kUint16, Raw<uint16_t>(1));
  EXPECT_THAT(Open(), RefusedWith("m-00003-of-00003.gguf: 'split.no': says that it is part 2 of 3"));
  parts_[2].Remove("split.no");
  EXPECT_THAT(Open(), RefusedWith("m-00003-of-00003.gguf: 'split.no': is missing"));
}

TEST_F(GgufPartsTest, TensorsAreCountedAndHaveOneNameEach) {
  parts_[0].SetInt("split.tensors.count", 4);
  EXPECT_THAT(Open(), RefusedWith("'split.tensors.count': 4 differs from the 3 tensors of all parts"));
  parts_[0].SetInt("split.tensors.count", 3);
  parts_[2].RemoveTensor("c").AddF32("a", {32});
  EXPECT_THAT(Open(), RefusedWith("m-00003-of-00003.gguf: tensor 'a': is in another part, too"));
}

TEST_F(GgufPartsTest, AFirstPartUnderAnotherNameIsRefused) {
  const auto opened = GgufParts::Open(dir_.Write("m.gguf", parts_[0].Build()));
  EXPECT_THAT(
      opened,
      RefusedWith("m.gguf: 'split.count': is the first of 3 parts, so its name must end with -00001-of-00003.gguf"));
}

TEST_F(GgufPartsTest, MorePartsThanMakeSenseAreRefused) {
  parts_[0].SetRaw("split.count", F::kUint16, Raw<uint16_t>(60000));
  EXPECT_THAT(Open(), RefusedWith("'split.count': 60000 is out of range"));
}

}  // namespace
}  // namespace hydrant
