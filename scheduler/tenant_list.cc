#include "scheduler/tenant_list.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {

void TenantList::Set(std::span<const TenantOptions> options) {
  assert(ValidateTenants(options, blocks_, rows_).ok() && options.size() >= tenants_.size());
  std::vector<TenantOptions> all(options.begin(), options.end());
  std::vector<TenantOptions> each = all;
  tenants_.resize(options.size());  // the last thing that may throw
  for (size_t i = 0; i < options.size(); ++i) {
    tenants_[i].options = std::move(each[i]);
    tenants_[i].floor_rows = FloorRows(options[i].floor_blocks, blocks_, rows_);
  }
  options_ = std::move(all);
}

double TenantList::ShareOf(int32_t index) const {
  double weights = 0;
  for (const Tenant& tenant : tenants_) weights += tenant.options.gone ? 0.0 : tenant.options.weight;
  if (at(index).options.gone) return 0.0;
  return at(index).options.weight / weights;
}

absl::Status TenantList::CheckIntegrity(const SequenceTable& sequences, int32_t waiting,
                                        absl::FunctionRef<int64_t(int32_t tenant)> parks_claim) const {
  int64_t queued = 0;
  for (size_t i = 0; i < tenants_.size(); ++i) {
    const Tenant& tenant = tenants_[i];
    queued += static_cast<int64_t>(tenant.queue.size());
    int32_t running = 0;
    int32_t rows = 0;
    int64_t reserved = parks_claim(static_cast<int32_t>(i));
    int64_t prompt_due = 0;
    int64_t peaks = 0;
    for (int32_t index : sequences.running()) {
      const Sequence& sequence = sequences.at(index);
      if (sequence.request.tenant != static_cast<int32_t>(i)) continue;
      ++running;
      rows += sequence.state_row >= 0 ? 1 : 0;
      reserved += sequence.blocks.reserved();
      peaks += sequence.peak_blocks;
      prompt_due += std::max(0, sequence.prompt_length() - sequence.scheduled);
    }
    if (running != tenant.running || rows != tenant.rows || reserved != tenant.reserved ||
        prompt_due != tenant.prompt_due || peaks != tenant.peaks) {
      return absl::InternalError(absl::StrCat("tenant ", tenant.options.name, ": ", tenant.running, " running in ",
                                              tenant.rows, " rows, ", tenant.reserved, " blocks reserved; counted ",
                                              running, ", ", rows, " and ", reserved));
    }
  }
  if (queued != waiting) return absl::InternalError(absl::StrCat(queued, " queued, ", waiting, " waiting"));
  return absl::OkStatus();
}

}  // namespace hydrant
