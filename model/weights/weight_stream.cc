#include "model/weights/weight_stream.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <string>
#include <utility>

#include "model/text/str_cat.h"

namespace hydrant {
namespace {

// A piece takes a disk some milliseconds, so that a new reading costs little beside it, and a core some more to multiply.
constexpr int64_t kPieceBytesMost = 16 << 20;
// The ring's part of the memory: four pieces.
constexpr int64_t kRingPart = 4, kRingPieces = 4;

int64_t MicrosSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
}

// Marks as resident what fits into `bytes`, spread evenly over the pass. Returns the bytes that it takes.
int64_t KeepSome(const StreamPieces& pieces, int64_t bytes, StreamPlan& plan) {
  int64_t all = 0;
  for (size_t i = 0; i < plan.sizes.size(); ++i) all += pieces.in_pass[i] ? plan.sizes[i] : 0;
  const double share = static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, all));
  double due = 0;
  int64_t kept = 0;
  for (size_t i = 0; i < plan.sizes.size(); ++i) {
    if (!pieces.in_pass[i]) continue;
    const int64_t size = plan.sizes[i];
    due += share * static_cast<double>(size);
    if (due < static_cast<double>(size) / 2 || kept + size > bytes) continue;
    due -= static_cast<double>(size);
    plan.resident[i] = true;
    plan.places[i] = kept;
    kept += size;
  }
  return kept;
}

}  // namespace

int64_t StreamPlan::PieceBytesMax(int64_t memory_bytes) {
  return std::clamp<int64_t>(memory_bytes / (kRingPart * kRingPieces), 1, kPieceBytesMost);
}

absl::StatusOr<StreamPlan> StreamPlan::Make(const StreamPieces& pieces, int64_t memory_bytes) {
  StreamPlan plan;
  int64_t largest = 0, all = 0;
  for (const int64_t bytes : pieces.bytes) {
    plan.sizes.push_back(ImageAligned(bytes));
    largest = std::max(largest, plan.sizes.back());
    all += plan.sizes.back();
  }
  plan.places.resize(plan.sizes.size());
  plan.resident.resize(plan.sizes.size());
  plan.checksum_bytes = all / kImageChunkBytes * 8 + static_cast<int64_t>(plan.sizes.size()) * 8;
  plan.part_room = (pieces.part_bytes_max / kImageChunkBytes + 2) * kImageChunkBytes;
  const int64_t least = 2 * largest + plan.part_room + plan.checksum_bytes;
  if (memory_bytes < least) {
    return absl::InvalidArgumentError(
        StrCat("this model's weights cannot be streamed through ", memory_bytes, " bytes: it takes at least ", least));
  }
  const int64_t left = memory_bytes - plan.part_room - plan.checksum_bytes;
  const int64_t ring_bytes = std::max(2 * largest, left / kRingPart / kImageAlignment * kImageAlignment);
  const int64_t ring = KeepSome(pieces, left - ring_bytes, plan);
  int64_t place = 0;
  for (size_t i = 0; i < plan.sizes.size(); ++i) {
    if (plan.resident[i]) continue;
    if (!pieces.in_pass[i]) {
      plan.places[i] = ring;
      continue;
    }
    if (place + plan.sizes[i] > ring_bytes) place = 0;
    plan.places[i] = ring + place;
    place += plan.sizes[i];
    plan.cycle.push_back(static_cast<int32_t>(i));
    plan.pass_bytes += plan.sizes[i];
  }
  plan.part_place = ring + ring_bytes;
  plan.memory_bytes = plan.part_place + plan.part_room;
  return plan;
}

WeightStream::WeightStream(StreamPlan plan, Device& device)
    : plan_(std::move(plan)),
      memory_(device.Allocate(static_cast<size_t>(plan_.memory_bytes))),
      at_(plan_.sizes.size(), -1) {
  assert(reinterpret_cast<uintptr_t>(memory_->data()) % kImageAlignment == 0);
  for (size_t i = 0; i < plan_.cycle.size(); ++i) at_[static_cast<size_t>(plan_.cycle[i])] = static_cast<int64_t>(i);
  counters_.pass_bytes = plan_.pass_bytes;
}

WeightStream::~WeightStream() {
  if (!reader_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  reader_.join();
}

std::byte* WeightStream::address(int32_t piece) const {
  return static_cast<std::byte*>(memory_->data()) + plan_.places[static_cast<size_t>(piece)];
}

std::span<std::byte> WeightStream::Room(int32_t piece) {
  return {address(piece), static_cast<size_t>(plan_.sizes[static_cast<size_t>(piece)])};
}

absl::Status WeightStream::Start(std::unique_ptr<WeightImage> image) {
  assert(!reader_.joinable());
  image_ = std::move(image);
  for (size_t i = 0; i < plan_.sizes.size(); ++i) {
    const bool is_first = !plan_.cycle.empty() && plan_.cycle.front() == static_cast<int32_t>(i);
    if (!plan_.resident[i] && !is_first) continue;
    const auto piece = static_cast<int32_t>(i);
    if (absl::Status status = image_->Read(piece, Room(piece)); !status.ok()) return status;
    counters_.bytes_read += static_cast<uint64_t>(plan_.sizes[i]);
  }
  if (plan_.cycle.empty()) return absl::OkStatus();
  read_ = 1;
  reader_ = std::thread([this] { ReadAhead(); });
  return absl::OkStatus();
}

// Whether the next turn's place is free. REQUIRES: mutex_ is held.
bool WeightStream::CanRead() const {
  if (!failure_.ok() || read_ - first_ >= static_cast<int64_t>(plan_.cycle.size())) return false;
  const auto next = static_cast<size_t>(plan_.cycle[InCycle(read_)]);
  const int64_t begin = plan_.places[next], end = begin + plan_.sizes[next];
  for (int64_t turn = first_; turn < read_; ++turn) {
    const auto used = static_cast<size_t>(plan_.cycle[InCycle(turn)]);
    if (begin < plan_.places[used] + plan_.sizes[used] && plan_.places[used] < end) return false;
  }
  return true;
}

void WeightStream::ReadAhead() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || CanRead(); });
    if (stop_) return;
    const uint64_t seeks = seeks_;
    const int32_t piece = plan_.cycle[InCycle(read_)];
    lock.unlock();
    absl::Status status = image_->Read(piece, Room(piece));
    lock.lock();
    counters_.bytes_read += static_cast<uint64_t>(plan_.sizes[static_cast<size_t>(piece)]);
    // Somebody went elsewhere meanwhile: nothing that is in memory since then lies where this was read to.
    if (seeks != seeks_) continue;
    if (status.ok()) {
      ++read_;
    } else {
      failure_ = std::move(status);
    }
    changed_.notify_all();
  }
}

// Makes the turn of plan_.cycle[at] the first one: one that is in memory or about to be, or else a new one.
void WeightStream::Seek(int64_t at) {
  for (int64_t turn = first_; turn <= read_; ++turn) {
    if (static_cast<int64_t>(InCycle(turn)) != at) continue;
    first_ = turn;
    return;
  }
  const auto size = static_cast<int64_t>(plan_.cycle.size());
  read_ += (at - static_cast<int64_t>(InCycle(read_)) + size) % size;
  first_ = read_;
  failure_ = absl::OkStatus();
  ++seeks_;
}

void WeightStream::Fail(std::unique_lock<std::mutex>& lock, const absl::Status& status) {
  ++counters_.failures;
  lock.unlock();
  throw WeightsLost(std::string(status.message()));
}

void WeightStream::Want(int32_t piece) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (std::exchange(held_, false)) ++first_;
  const int64_t at = at_[static_cast<size_t>(piece)];
  if (at >= 0) Seek(at);
  changed_.notify_all();
  if (at < 0) return;
  // What failed once, be it long ago when it was read ahead, is tried once more.
  bool again = true;
  const auto begin = std::chrono::steady_clock::now();
  while (first_ == read_) {
    if (!failure_.ok()) {
      const absl::Status status = std::exchange(failure_, absl::OkStatus());
      if (!again) Fail(lock, status);
      again = false;
      changed_.notify_all();
    }
    changed_.wait(lock);
  }
  counters_.waited_us += MicrosSince(begin);
  held_ = true;
}

const std::byte* WeightStream::Part(int32_t piece, int64_t begin, int64_t bytes) {
  if (plan_.resident[static_cast<size_t>(piece)]) return address(piece) + begin;
  const auto from = std::chrono::steady_clock::now();
  std::byte* room = static_cast<std::byte*>(memory_->data()) + plan_.part_place;
  const std::span<std::byte> out(room, static_cast<size_t>(plan_.part_room));
  absl::Status status;
  for (int tries = 0; tries < 2; ++tries) {
    status = image_->ReadChunks(piece, begin, begin + bytes, out);
    if (status.ok()) break;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  counters_.waited_us += MicrosSince(from);
  counters_.bytes_read += static_cast<uint64_t>(bytes);
  if (!status.ok()) Fail(lock, status);
  return room + begin % kImageChunkBytes;
}

WeightStream::Counters WeightStream::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

}  // namespace hydrant
