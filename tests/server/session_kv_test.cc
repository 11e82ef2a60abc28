#include "server/session_kv.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

Sha256Digest DigestOf(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  absl::StatusOr<Sha256Digest> digest = DigestOfModel(**checkpoint, path);
  EXPECT_TRUE(digest.ok()) << digest.status();
  return *digest;
}

void ChangeByte(const std::string& path, std::streamoff at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(at);
  file.put(byte);
}

// Somebody who trains a model on keeps its name, its size, and most of its configuration.
TEST(SessionKv, WeightsOfTheSameNameAreTheSameModelByTheirContentAlone) {
  const TempDir temp;
  const std::string model = temp.File("model"), same = temp.File("other_name");
  std::filesystem::copy(SourceDir() + "/tests/golden/gqa_tied", model, std::filesystem::copy_options::recursive);
  std::filesystem::copy(model, same, std::filesystem::copy_options::recursive);
  const Sha256Digest digest = DigestOf(model);
  EXPECT_EQ(DigestOf(same), digest);
  const std::string weights = model + "/model.safetensors";
  ChangeByte(weights, static_cast<std::streamoff>(std::filesystem::file_size(weights)) - 1);
  EXPECT_NE(DigestOf(model), digest) << "the last byte of the last weight";
  std::ofstream(same + "/config.json", std::ios::app) << " ";
  EXPECT_NE(DigestOf(same), digest) << "what the weights mean";
  EXPECT_EQ(DigestOfServed(digest, "bf16"), DigestOfServed(digest, "bf16"));
  EXPECT_NE(DigestOfServed(digest, "bf16"), DigestOfServed(digest, "q8_0"));
}

TEST(SessionKv, AFileThatIsRenamedIsTheSameModel) {
  const TempDir temp;
  const std::string path = temp.File("model.gguf"), renamed = temp.File("other.gguf");
  std::ofstream(path, std::ios::binary) << TinyGguf().Build();
  std::filesystem::copy(path, renamed);
  EXPECT_EQ(DigestOf(renamed), DigestOf(path));
}

TEST(SessionKv, AFormatSaysWhatABlockIs) {
  const KvCacheLayout layout = {.layers = 3, .blocks = 7, .kv_heads = 2, .head_dim = 64, .type = KvType::kBF16};
  const KvFormat format = MakeKvFormat(DirectoryId{1}, Sha256Digest{2}, "cpu 1", layout);
  EXPECT_EQ(format.block_bytes, static_cast<int64_t>(layout.block_bytes()));
  EXPECT_EQ(format.layers, 3);
  EXPECT_EQ(format.type, static_cast<uint8_t>(KvType::kBF16));
  EXPECT_EQ(format.device, "cpu 1");
}

}  // namespace
}  // namespace hydrant
