// What the tests of KV files have in common: blocks that a tiny device could have written.
#ifndef HYDRANT_TESTS_SERVER_SESSIONS_KV_KV_BYTES_H_
#define HYDRANT_TESTS_SERVER_SESSIONS_KV_KV_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "kernels/step/block_ops.h"
#include "server/sessions/kv/kv_file.h"

namespace hydrant {

// One layer and KV head; what lies before the scores makes a block of `block_bytes`.
inline KvFormat TinyFormat(int64_t block_bytes = 4096 + 2 * kBlockSlots * 4) {
  KvFormat format;
  format.directory.fill(1);
  format.model.fill(2);
  format.device = "cpu 1";
  format.layers = format.kv_heads = 1;
  format.head_dim = 64;
  format.type = 1;
  format.block_bytes = block_bytes;
  return format;
}

inline KvFileHeader TinyHeader(int32_t live, int64_t block_bytes = TinyFormat().block_bytes) {
  KvFileHeader header;
  header.format = TinyFormat(block_bytes);
  header.binding.session.fill(3);
  header.binding.turn = 7;
  header.binding.computed = live + 5;
  const std::vector<int32_t> tokens(static_cast<size_t>(live + 5), 9);
  header.binding.tokens = DigestOfTokens(tokens);
  header.binding.policy.fill(4);
  header.live = live;
  header.wall_s = 1'700'000'000;
  return header;
}

// Descriptors of KV files that this process has open.
inline int OpenKvFiles() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the one that this reads with
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    count += target.find(".kv") != std::string::npos ? 1 : 0;
  }
  return count;
}

// Made up, but for positions that there are.
inline std::vector<std::byte> TinyPayload(const KvFileHeader& header, uint32_t seed = 5) {
  std::vector<std::byte> payload(static_cast<size_t>(header.payload_bytes()));
  std::mt19937 random(seed);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
  const auto block_bytes = static_cast<size_t>(header.format.block_bytes);
  for (size_t end = block_bytes; end <= payload.size(); end += block_bytes) {
    for (size_t slot = 0; slot < kBlockSlots; ++slot) {
      const int32_t position = static_cast<int32_t>(random() % static_cast<uint32_t>(header.binding.computed));
      std::memcpy(payload.data() + end - (kBlockSlots - slot) * 4, &position, 4);
    }
  }
  return payload;
}

inline std::string FileOf(const KvFileHeader& header, std::span<const std::byte> payload) {
  std::string file = EncodeKvHead(header, payload);
  const std::string trailer = EncodeKvTrailer(header, file);
  file.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  return file + trailer;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_SESSIONS_KV_KV_BYTES_H_
