// The adapters that a server begins with, as its command line says.
//
// Thread: the main one, while the server starts.
#ifndef HYDRANT_SERVER_ADAPTER_SETUP_H_
#define HYDRANT_SERVER_ADAPTER_SETUP_H_

#include <memory>

#include "absl/status/status.h"
#include "model/checkpoint/checkpoint.h"
#include "model/run/executor.h"
#include "server/adapters/adapter_registry.h"
#include "server/config.h"
#include "server/sizing.h"

namespace hydrant {

// Null without --enable-lora. `executor` has the slots, and outlives it.
std::unique_ptr<AdapterRegistry> MakeAdapters(const Config& config, const Checkpoint& checkpoint, const Sizing& sizing,
                                              Executor& executor);

// Those of --lora-modules, which are there from the first request on. REQUIRES: not null where there are any.
absl::Status LoadAdapters(const Config& config, AdapterRegistry* adapters);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ADAPTER_SETUP_H_
