#include "model/files/weight_image.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using Part = std::span<std::byte>;

class WeightImageTest : public testing::Test {
 protected:
  static constexpr size_t kRoom = 256 << 10;

  WeightImageTest() : memory_(static_cast<std::byte*>(std::aligned_alloc(kImageAlignment, kRoom)), &std::free) {}

  // A piece of one byte, one of whole chunks, one that ends within a chunk.
  static ImageLayout Layout() { return {"tiny model, q8", {1, 2 * kImageChunkBytes, 5 * kImageChunkBytes + 100}}; }

  static std::vector<std::byte> Piece(const ImageLayout& layout, size_t piece) {
    std::mt19937 random(static_cast<uint32_t>(piece));
    std::vector<std::byte> bytes(static_cast<size_t>(ImageAligned(layout.piece_bytes[piece])));
    for (int64_t i = 0; i < layout.piece_bytes[piece]; ++i) bytes[static_cast<size_t>(i)] = std::byte(random());
    return bytes;
  }

  void WriteImage(const ImageLayout& layout) {
    const auto writer = WeightImageWriter::Create(path_, layout);
    ASSERT_THAT(writer, IsOk());
    for (size_t i = 0; i < layout.piece_bytes.size(); ++i) ASSERT_THAT((*writer)->Write(Piece(layout, i)), IsOk());
    ASSERT_THAT((*writer)->Finish(), IsOk());
  }

  // Into what Read is given.
  Part Room(size_t bytes) { return {memory_.get(), bytes}; }

  void FlipBit(int64_t at) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 8);
    file.seekp(at);
    file.put(byte);
  }

  TempDir dir_;
  const std::string path_ = dir_.File("model.image");
  const std::unique_ptr<std::byte, decltype(&std::free)> memory_;
};

TEST_F(WeightImageTest, GivesEveryPieceAndPartsOfOne) {
  const ImageLayout layout = Layout();
  WriteImage(layout);
  EXPECT_EQ(static_cast<int64_t>(std::filesystem::file_size(path_)), layout.file_bytes());
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
  const auto image = WeightImage::Open(path_, layout);
  ASSERT_THAT(image, IsOk());
  for (const size_t piece : {2, 0, 1, 2}) {
    const std::vector<std::byte> expected = Piece(layout, piece);
    ASSERT_THAT((*image)->Read(static_cast<int64_t>(piece), Room(expected.size())), IsOk());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), memory_.get())) << piece;
  }
  const std::vector<std::byte> last = Piece(layout, 2);
  for (const auto& [begin, end] : {std::pair(0, 1), std::pair(20000, 33000), std::pair(5 << 14, (5 << 14) + 100)}) {
    ASSERT_THAT((*image)->ReadChunks(2, begin, end, Room(4 << 14)), IsOk());
    const int64_t chunk = begin / kImageChunkBytes * kImageChunkBytes;
    EXPECT_TRUE(std::equal(last.begin() + begin, last.begin() + end, memory_.get() + begin - chunk)) << begin;
  }
}

TEST_F(WeightImageTest, AnotherTornOrDamagedFileIsNotUsed) {
  const ImageLayout layout = Layout();
  const auto open = [&] { return WeightImage::Open(path_, layout).status().code(); };
  EXPECT_EQ(open(), absl::StatusCode::kNotFound);
  WriteImage(layout);
  ASSERT_EQ(open(), absl::StatusCode::kOk);
  ImageLayout other = layout;
  other.identity.back() = '4';
  EXPECT_EQ(WeightImage::Open(path_, other).status().code(), absl::StatusCode::kFailedPrecondition);
  other = layout;
  std::swap(other.piece_bytes[0], other.piece_bytes[1]);
  EXPECT_EQ(WeightImage::Open(path_, other).status().code(), absl::StatusCode::kFailedPrecondition);
  // Any bit of the header, be it of a checksum.
  for (const int64_t at : {0, 9, 20, 40, 50, 70, 100}) {
    FlipBit(at);
    EXPECT_EQ(open(), absl::StatusCode::kFailedPrecondition) << at;
    FlipBit(at);
  }
  std::filesystem::resize_file(path_, static_cast<uintmax_t>(layout.file_bytes() - kImageAlignment));
  EXPECT_EQ(open(), absl::StatusCode::kFailedPrecondition);
  WriteImage(layout);
  EXPECT_EQ(open(), absl::StatusCode::kOk);
}

TEST_F(WeightImageTest, AFlippedBitIsFoundWhereItIsReadAndNowhereElse) {
  const ImageLayout layout = Layout();
  WriteImage(layout);
  const auto image = WeightImage::Open(path_, layout);
  ASSERT_THAT(image, IsOk());
  const int64_t third = layout.header_bytes() + kImageAlignment + 2 * kImageChunkBytes;
  FlipBit(third + 3 * kImageChunkBytes + 7);
  EXPECT_THAT((*image)->Read(2, Room(6 << 14)), RefusedWith("model.image: the checksum of chunk 3 of piece 2"));
  EXPECT_EQ((*image)->Read(2, Room(6 << 14)).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT((*image)->ReadChunks(2, 0, 3 << 14, Room(3 << 14)), IsOk());
  EXPECT_THAT((*image)->Read(1, Room(2 << 14)), IsOk());
  FlipBit(third + 3 * kImageChunkBytes + 7);
  EXPECT_THAT((*image)->Read(2, Room(6 << 14)), IsOk());
}

TEST_F(WeightImageTest, AFileThatBecomesShorterIsAnError) {
  const ImageLayout layout = Layout();
  WriteImage(layout);
  const auto image = WeightImage::Open(path_, layout);
  ASSERT_THAT(image, IsOk());
  std::filesystem::resize_file(path_, static_cast<uintmax_t>(layout.file_bytes() - 2 * kImageChunkBytes));
  EXPECT_THAT((*image)->Read(2, Room(6 << 14)), RefusedWith("it was longer"));
  EXPECT_THAT((*image)->Read(1, Room(2 << 14)), IsOk());
}

TEST_F(WeightImageTest, WithoutFinishNothingIsLeft) {
  const ImageLayout layout = Layout();
  {
    const auto writer = WeightImageWriter::Create(path_, layout);
    ASSERT_THAT(writer, IsOk());
    ASSERT_THAT((*writer)->Write(Piece(layout, 0)), IsOk());
    EXPECT_TRUE(std::filesystem::exists(path_ + ".partial"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  EXPECT_THAT(WeightImageWriter::Create(dir_.File("none/model.image"), layout), RefusedWith("cannot be written"));
  EXPECT_THAT(WeightImageWriter::Create(path_, {"large", {int64_t{1} << 55}}), RefusedWith("cannot be written"));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST(ImageChecksum, EveryBitCounts) {
  std::vector<std::byte> bytes(96);
  const uint64_t zeros = ImageChecksum(bytes);
  std::vector<uint64_t> seen = {zeros, ImageChecksum(std::span(bytes).first(64))};
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    seen.push_back(ImageChecksum(bytes));
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(ImageChecksum(bytes), zeros);
}

}  // namespace
}  // namespace hydrant
