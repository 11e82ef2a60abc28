#include "server/adapters/adapter_registry.h"

#include <algorithm>
#include <cassert>
#include <ctime>
#include <exception>
#include <new>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/process/clock.h"
#include "server/process/log.h"
#include "server/process/sha256.h"

namespace hydrant {
namespace {

constexpr size_t kNameBytesMax = 256;
constexpr size_t kDigestBytes = 16;

std::string DigestOf(const AdapterFiles& files) {
  const Sha256Digest config = Sha256(files.config), weights = Sha256(files.weights);
  std::string both(config.begin(), config.end());
  both.append(weights.begin(), weights.end());
  const Sha256Digest digest = Sha256(both);
  return std::string(digest.begin(), digest.begin() + kDigestBytes);
}

}  // namespace

bool AdapterRegistry::IsName(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && std::all_of(name.begin(), name.end(), [](char c) {
    return c > ' ' && c < 0x7F && c != '"' && c != '\\' && c != ',';
  });
}

AdapterRegistry::AdapterRegistry(Options options) : options_(std::move(options)), free_(std::make_shared<Free>()) {
  assert(options_.slots > 0 && options_.rank_max > 0 && options_.put != nullptr);
  for (int32_t slot = options_.slots; slot > 0; --slot) free_->slots.push_back(slot - 1);
}

// Giving a slot back allocates nothing: there is room for all of them.
std::shared_ptr<AdapterSlot> AdapterRegistry::TakeSlot() {
  auto slot = std::make_unique<AdapterSlot>();
  // Where there is no memory for it, the shared pointer deletes what it was given.
  std::shared_ptr<AdapterSlot> taken(slot.release(), [free = free_](AdapterSlot* given) {
    {
      const std::lock_guard lock(free->mutex);
      if (given->number >= 0) free->slots.push_back(given->number);
    }
    delete given;
  });
  const std::lock_guard lock(free_->mutex);
  if (free_->slots.empty()) return nullptr;
  taken->number = free_->slots.back();
  free_->slots.pop_back();
  return taken;
}

absl::StatusOr<std::shared_ptr<const LoadedAdapter>> AdapterRegistry::Read(const std::string& name,
                                                                           const std::string& path) {
  if (!IsName(name)) {
    return absl::InvalidArgumentError(absl::StrCat("an adapter's name has 1 to ", kNameBytesMax,
                                                   " printable characters without spaces, commas and quotes"));
  }
  if (name == options_.model_name || Find(name) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("there is a model '", name, "' already"));
  }
  auto loaded = std::make_shared<LoadedAdapter>();
  // Before the files, which nobody needs where there is no slot.
  loaded->slot = TakeSlot();
  if (loaded->slot == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", options_.slots, " slots for adapters are taken (--max-loras)"));
  }
  absl::StatusOr<AdapterFiles> files = ReadAdapterFiles(path, options_.targets, options_.rank_max);
  if (!files.ok()) return absl::InvalidArgumentError(files.status().message());
  loaded->digest = DigestOf(*files);
  const absl::StatusOr<Adapter> adapter = ParseAdapter(*std::move(files), options_.targets, options_.rank_max);
  if (!adapter.ok()) return adapter.status();
  loaded->name = name;
  loaded->path = path;
  loaded->rank = adapter->rank;
  loaded->created = static_cast<int64_t>(std::time(nullptr));
  options_.put(loaded->slot->number, *adapter);
  return loaded;
}

absl::Status AdapterRegistry::Load(const std::string& name, const std::string& path) {
  const std::lock_guard loading(loading_);
  const int64_t begin_us = MonotonicUs();
  absl::StatusOr<std::shared_ptr<const LoadedAdapter>> loaded;
  std::string digest;
  try {
    loaded = Read(name, path);
    if (loaded.ok()) {
      digest = absl::BytesToHexString((*loaded)->digest);  // behind the name nothing may fail
      const std::lock_guard lock(mutex_);
      adapters_.emplace(name, *loaded);
    }
  } catch (const std::bad_alloc&) {
    loaded = absl::UnavailableError("there is not enough memory to load the adapter");
  } catch (const std::exception& failure) {
    // What a device says of itself has no word of a request.
    loaded = absl::InternalError(absl::StrCat("the adapter could not be put into its slot: ", failure.what()));
  }
  if (!loaded.ok()) {
    const std::string why(loaded.status().message());
    const LogField fields[] = {{"name", name}, {"path", path}, {"reason", why}};
    Log(LogLevel::kWarning, "adapter not loaded", fields);
    return loaded.status();
  }
  const LoadedAdapter& adapter = **loaded;
  const LogField fields[] = {{"name", name},
                             {"path", path},
                             {"digest", digest},
                             {"rank", int64_t{adapter.rank}},
                             {"slot", int64_t{adapter.slot->number}},
                             {"us", MonotonicUs() - begin_us}};
  Log(LogLevel::kInfo, "adapter loaded", fields);
  return absl::OkStatus();
}

bool AdapterRegistry::Unload(std::string_view name) {
  std::shared_ptr<const LoadedAdapter> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = adapters_.find(name);
    if (found == adapters_.end()) return false;
    std::erase_if(unloaded_, [](const auto& one) { return one.second.expired(); });
    unloaded_.emplace_back(name, found->second->slot);
    gone = std::move(found->second);
    adapters_.erase(found);
  }
  const LogField fields[] = {{"name", name}, {"slot", int64_t{gone->slot->number}}};
  Log(LogLevel::kInfo, "adapter unloaded", fields);
  return true;
}

std::shared_ptr<const LoadedAdapter> AdapterRegistry::Find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(name);
  return found != adapters_.end() ? found->second : nullptr;
}

std::vector<std::shared_ptr<const LoadedAdapter>> AdapterRegistry::List() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const LoadedAdapter>> all;
  for (const auto& [name, adapter] : adapters_) all.push_back(adapter);
  return all;
}

AdapterRegistry::Demand AdapterRegistry::demand() const {
  std::set<std::string> running, waiting;  // a name may have been given anew
  const auto add = [&](const std::string& name, const AdapterSlot& slot) {
    if (slot.running.load(std::memory_order_relaxed) > 0) running.insert(name);
    if (slot.waiting.load(std::memory_order_relaxed) > 0) waiting.insert(name);
  };
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, adapter] : adapters_) add(name, *adapter->slot);
    for (const auto& [name, slot] : unloaded_) {
      if (const std::shared_ptr<AdapterSlot> kept = slot.lock()) add(name, *kept);
    }
  }
  return {{running.begin(), running.end()}, {waiting.begin(), waiting.end()}};
}

absl::Status ParseAdapterModule(std::string_view text, AdapterModule* out) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0 || equals + 1 == text.size()) {
    return absl::InvalidArgumentError(absl::StrCat("'", std::string(text), "' is not NAME=PATH"));
  }
  *out = {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
  return absl::OkStatus();
}

}  // namespace hydrant
