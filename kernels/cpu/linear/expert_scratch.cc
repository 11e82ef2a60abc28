#include "kernels/cpu/linear/expert_scratch.h"

namespace hydrant {
namespace {

size_t Entries(const StepBounds& bounds) {
  return static_cast<size_t>(bounds.tokens_max) * static_cast<size_t>(bounds.experts_per_row);
}

size_t GatheredFloats(const StepBounds& bounds) {
  return bounds.experts == 0 ? 0 : static_cast<size_t>(kExpertRows * bounds.expert_cols_max);
}

}  // namespace

ExpertScratch::ExpertScratch(int threads, const StepBounds& bounds, size_t prepared_row_bytes)
    : chosen(Entries(bounds)),
      prepared(Entries(bounds) * prepared_row_bytes),
      gathered_floats(GatheredFloats(bounds)),
      gathered(static_cast<size_t>(threads) * gathered_floats) {
  groups.Reserve(bounds.tokens_max, bounds.experts_per_row, bounds.experts);
}

size_t ExpertScratch::Bytes(int threads, const StepBounds& bounds, size_t prepared_row_bytes) {
  return Entries(bounds) * (sizeof(ChosenExpert) + prepared_row_bytes) +
         static_cast<size_t>(threads) * GatheredFloats(bounds) * sizeof(float) +
         ExpertGroups::Bytes(bounds.tokens_max, bounds.experts_per_row, bounds.experts);
}

}  // namespace hydrant
