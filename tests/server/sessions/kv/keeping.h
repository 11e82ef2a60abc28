// A keeper of KV files in a directory of the test's, and the log that it asks whose a session is.
#ifndef HYDRANT_TESTS_SERVER_SESSIONS_KV_KEEPING_H_
#define HYDRANT_TESTS_SERVER_SESSIONS_KV_KEEPING_H_

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/process/clock.h"
#include "server/sessions/kv/kv_keeper.h"
#include "tests/server/sessions/kv/kv_bytes.h"
#include "tests/support/temp_dir.h"

namespace hydrant {

class Keeping : public testing::Test {
 protected:
  static constexpr int32_t kLive = 40;

  void Open() {
    std::filesystem::create_directories(path_);
    Open(DiskDirectory(open(path_.c_str(), O_RDONLY | O_DIRECTORY)));
  }
  void Open(std::unique_ptr<LogDirectory> directory) {
    KvKeeper::Options options;
    options.bytes_max = bytes_max_;
    options.free_bytes_min = free_bytes_min_;
    options.waiting_bytes_max = waiting_bytes_max_;
    options.reading_bytes_max = reading_bytes_max_;
    options.look_us = 1'000'000'000;
    options.bytes_per_s = bytes_per_s_;
    options.retry_us = retry_us_;
    options.clock = MonotonicUs;
    options.weight_of = [](const std::string&) { return 1.0; };
    options.bytes_max_of = [](const std::string&) { return int64_t{0}; };
    options.owner_of = [this](const SessionName& session) -> std::optional<KvKeeper::Options::Owner> {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = log_.find(session);
      return found == log_.end() ? std::nullopt : std::optional(found->second);
    };
    KvFormat format = TinyFormat(block_bytes_);
    if (has_other_weights_) format.model[0] ^= 1;
    swept_ = {};
    options.on_swept = [this](bool all) { swept_.set_value(all); };
    keeper_ = std::make_unique<KvKeeper>(std::move(directory), format, std::move(options));
  }
  void Start() {
    KvKeeper::Hooks hooks;
    hooks.on_change = [this](const SessionName& session, uint64_t turn) {
      const std::lock_guard<std::mutex> lock(mutex_);
      told_[session] = turn;
    };
    hooks.look = [this] { looks_.set_value(); };
    keeper_->Start(std::move(hooks));
  }
  void SetUp() override { Open(); }

  static KvBinding BindingOf(uint8_t session, uint64_t turn) {
    KvBinding binding = TinyHeader(kLive).binding;
    binding.session.fill(session);
    binding.turn = turn;
    return binding;
  }
  KvWrite WriteOf(uint8_t session, uint64_t turn, const std::string& tenant = "t") {
    KvFileHeader header = TinyHeader(kLive, block_bytes_);
    header.binding = BindingOf(session, turn);
    return WriteOf(header, TinyPayload(header, session), tenant);
  }
  KvWrite WriteOf(const KvFileHeader& header, std::span<const std::byte> payload, const std::string& tenant) {
    const uint8_t session = header.binding.session[0];
    const uint64_t turn = header.binding.turn;
    KvWrite write;
    write.binding = header.binding;
    write.tenant = tenant;
    write.used_s = session;
    const auto bytes = std::make_shared<std::byte[]>(payload.size());
    std::copy(payload.begin(), payload.end(), bytes.get());
    write.kv = {bytes, payload.size(), header.binding.computed, header.live};
    const std::lock_guard<std::mutex> lock(mutex_);
    log_[write.binding.session] = {turn, write.used_s, tenant};
    return write;
  }
  bool Keep(uint8_t session, uint64_t turn, const std::string& tenant = "t") {
    return Keep(WriteOf(session, turn, tenant));
  }
  bool Keep(KvWrite write) {
    std::promise<bool> kept;
    keeper_->Write(std::move(write), /*urgent=*/true, [&](bool durable) { kept.set_value(durable); });
    return kept.get_future().get();
  }
  KvBytes ReadBack(uint8_t session, uint64_t turn) { return ReadBack(BindingOf(session, turn)); }
  KvBytes ReadBack(const KvBinding& binding) {
    const auto file = keeper_->Open(binding.session, binding.turn, [&] { return binding; });
    if (file == nullptr) return {};
    std::promise<KvBytes> read;
    keeper_->Read(file, [&](KvBytes kv) { read.set_value(std::move(kv)); });
    return read.get_future().get();
  }
  bool Has(uint8_t session, uint64_t turn) { return !ReadBack(session, turn).empty(); }
  bool Remove(uint8_t session) {
    std::promise<bool> gone;
    keeper_->Remove(BindingOf(session, 1).session, [&](bool all) { gone.set_value(all); });
    return gone.get_future().get();
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.push_back(entry.path().filename());
    return names;
  }
  uint64_t Told(uint8_t session) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return told_[BindingOf(session, 1).session];
  }
  uint64_t Rejected(KvReject reject) const { return keeper_->counts().rejected[static_cast<size_t>(reject)]; }

  const TempDir temp_;
  const std::string path_ = temp_.File("kv");
  int64_t block_bytes_ = TinyFormat().block_bytes;
  int64_t bytes_max_ = 1 << 20;
  int64_t free_bytes_min_ = 0;
  int64_t bytes_per_s_ = 0;
  int64_t retry_us_ = 10'000'000;
  bool has_other_weights_ = false;
  int64_t waiting_bytes_max_ = 1 << 20;
  int64_t reading_bytes_max_ = 1 << 20;
  std::mutex mutex_;
  std::map<SessionName, KvKeeper::Options::Owner> log_;
  std::map<SessionName, uint64_t> told_;
  std::promise<void> looks_;
  std::promise<bool> swept_;
  std::unique_ptr<KvKeeper> keeper_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_SESSIONS_KV_KEEPING_H_
