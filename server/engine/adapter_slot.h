// AdapterSlot is the slot of an adapter (LoRA), with the count of those that use it; AdapterUse is one of these.
#ifndef HYDRANT_SERVER_ENGINE_ADAPTER_SLOT_H_
#define HYDRANT_SERVER_ENGINE_ADAPTER_SLOT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace hydrant {

// Thread: any.
struct AdapterSlot {
  int32_t number = -1;                            // RowCounts::adapter of the rows that compute with it
  std::atomic<int32_t> waiting = 0, running = 0;  // sequences
};

// AdapterUse is a sequence's: it keeps the slot, and counts the sequence, first among those that wait. Thread: one at a time.
class AdapterUse {
 public:
  AdapterUse() = default;
  // Null: the sequence has no adapter.
  explicit AdapterUse(std::shared_ptr<AdapterSlot> slot) : slot_(std::move(slot)) {
    if (slot_ != nullptr) Count(1);
  }
  AdapterUse(AdapterUse&& other) noexcept
      : slot_(std::exchange(other.slot_, nullptr)), admitted_(std::exchange(other.admitted_, false)) {}
  AdapterUse& operator=(AdapterUse&& other) noexcept {
    std::swap(slot_, other.slot_);
    std::swap(admitted_, other.admitted_);
    return *this;
  }
  ~AdapterUse() {
    if (slot_ != nullptr) Count(-1);
  }

  // The sequence left the queue.
  void Admit() {
    if (slot_ == nullptr) return;
    Count(-1);
    admitted_ = true;
    Count(1);
  }

 private:
  void Count(int32_t change) {
    (admitted_ ? slot_->running : slot_->waiting).fetch_add(change, std::memory_order_relaxed);
  }

  std::shared_ptr<AdapterSlot> slot_;
  bool admitted_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_ADAPTER_SLOT_H_
