// AdapterRegistry knows the adapters (LoRA) that requests can name: it reads their folders, gives each a slot of the executor, and
// takes the slot back when its last request has gone.
//
// Thread: any. Load reads files, and puts what they hold into its slot: it may take long, beside whatever requests run. The rest holds
// a short lock.
//
// Invariants
//  1. A slot is one adapter's from Load until the adapter is unloaded and nobody has it any more.
//  2. A name is there once its slot has all of the adapter, and not at all where that failed.
//  3. What has a name is never exchanged under it: an adapter's digest is that of the files that were read.
#ifndef HYDRANT_SERVER_ADAPTERS_ADAPTER_REGISTRY_H_
#define HYDRANT_SERVER_ADAPTERS_ADAPTER_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/checkpoint/adapter.h"
#include "model/checkpoint/adapter_targets.h"
#include "server/engine/adapter_slot.h"

namespace hydrant {

// An adapter in its slot. Immutable.
struct LoadedAdapter {
  std::string name;
  std::string path;    // as it was given
  std::string digest;  // 16 bytes, of the contents of its files
  int32_t rank = 0;
  int64_t created = 0;                // Unix seconds
  std::shared_ptr<AdapterSlot> slot;  // whoever computes with it keeps this until that is done
};

class AdapterRegistry {
 public:
  struct Options {
    AdapterTargets targets;  // of the model
    std::string model_name;  // a name that no adapter may have
    int32_t slots = 0;       // > 0
    int32_t rank_max = 0;
    // Executor::PutAdapter. May throw.
    std::function<void(int32_t slot, const Adapter& adapter)> put;
  };

  explicit AdapterRegistry(Options options);
  AdapterRegistry(const AdapterRegistry&) = delete;
  AdapterRegistry& operator=(const AdapterRegistry&) = delete;

  // Whether it may be one of an adapter: it is fit for a log line, a label and an error.
  static bool IsName(std::string_view name);

  // One at a time: others wait. Errors: ALREADY_EXISTS (the name), INVALID_ARGUMENT (the name, or what is wrong with the folder),
  // RESOURCE_EXHAUSTED (every slot has an adapter), UNAVAILABLE (there is not enough memory), INTERNAL (the device did not take it).
  // Logs what came of it.
  absl::Status Load(const std::string& name, const std::string& path);
  // Requests that have it go on. False: there is none of this name.
  bool Unload(std::string_view name);

  // Null: there is none of this name.
  std::shared_ptr<const LoadedAdapter> Find(std::string_view name) const;
  std::vector<std::shared_ptr<const LoadedAdapter>> List() const;  // by name
  // The names of those that sequences run with, and of those that some wait for; by name. They may be unloaded meanwhile.
  struct Demand {
    std::vector<std::string> running, waiting;
    bool operator==(const Demand&) const = default;
  };
  Demand demand() const;
  int32_t slots() const { return options_.slots; }

 private:
  // Slots that nobody has. It outlives the registry where requests do.
  struct Free {
    std::mutex mutex;
    std::vector<int32_t> slots;  // guarded by mutex
  };

  std::shared_ptr<AdapterSlot> TakeSlot();
  absl::StatusOr<std::shared_ptr<const LoadedAdapter>> Read(const std::string& name, const std::string& path);

  const Options options_;
  const std::shared_ptr<Free> free_;
  std::mutex loading_;  // one at a time: two of one name must not both be read
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const LoadedAdapter>, std::less<>> adapters_;  // guarded by mutex_
  // Those that were unloaded, while somebody may compute with them: no more than slots.
  std::vector<std::pair<std::string, std::weak_ptr<AdapterSlot>>> unloaded_;  // guarded by mutex_
};

// What `--lora-modules` says: NAME=PATH.
struct AdapterModule {
  std::string name, path;
};
// Errors: INVALID_ARGUMENT.
absl::Status ParseAdapterModule(std::string_view text, AdapterModule* out);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ADAPTERS_ADAPTER_REGISTRY_H_
