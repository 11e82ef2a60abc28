#include "server/adapter_setup.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {

std::unique_ptr<AdapterRegistry> MakeAdapters(const Config& config, const Checkpoint& checkpoint, const Sizing& sizing,
                                              Executor& executor) {
  if (sizing.adapters.slots == 0) return nullptr;
  auto put = [&executor](int32_t slot, const Adapter& adapter) { executor.PutAdapter(slot, adapter); };
  return std::make_unique<AdapterRegistry>(AdapterRegistry::Options{.targets = AdapterTargets::Of(checkpoint),
                                                                    .model_name = config.served_model_name,
                                                                    .slots = sizing.adapters.slots,
                                                                    .rank_max = sizing.adapters.rank_max,
                                                                    .put = std::move(put)});
}

absl::Status LoadAdapters(const Config& config, AdapterRegistry* adapters) {
  for (const AdapterModule& module : config.adapter_modules) {
    if (absl::Status status = adapters->Load(module.name, module.path); !status.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("--lora-modules: ", module.name, "=", module.path, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace hydrant
