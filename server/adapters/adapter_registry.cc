#include "server/adapters/adapter_registry.h"

#include <algorithm>
#include <cassert>
#include <ctime>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
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
std::shared_ptr<const int32_t> AdapterRegistry::TakeSlot() {
  auto slot = std::make_unique<int32_t>(-1);
  int32_t* const number = slot.get();
  // Where there is no memory for it, the shared pointer deletes what it was given.
  std::shared_ptr<const int32_t> taken(slot.release(), [free = free_](const int32_t* given) {
    {
      const std::lock_guard lock(free->mutex);
      if (*given >= 0) free->slots.push_back(*given);
    }
    delete given;
  });
  const std::lock_guard lock(free_->mutex);
  if (free_->slots.empty()) return nullptr;
  *number = free_->slots.back();
  free_->slots.pop_back();
  return taken;
}

absl::Status AdapterRegistry::Load(const std::string& name, const std::string& path) {
  if (!IsName(name)) {
    return absl::InvalidArgumentError(absl::StrCat("an adapter's name has 1 to ", kNameBytesMax,
                                                   " printable characters without spaces, commas and quotes"));
  }
  const std::lock_guard loading(loading_);
  if (name == options_.model_name || Find(name) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("there is a model '", name, "' already"));
  }
  absl::StatusOr<AdapterFiles> files = ReadAdapterFiles(path, options_.targets, options_.rank_max);
  if (!files.ok()) return absl::InvalidArgumentError(files.status().message());
  absl::StatusOr<Adapter> adapter = ParseAdapter(*files, options_.targets, options_.rank_max);
  if (!adapter.ok()) return adapter.status();
  auto loaded = std::make_shared<LoadedAdapter>();
  loaded->name = name;
  loaded->path = path;
  loaded->digest = DigestOf(*files);
  loaded->rank = adapter->rank;
  loaded->created = static_cast<int64_t>(std::time(nullptr));
  loaded->slot = TakeSlot();
  if (loaded->slot == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", options_.slots, " slots for adapters are taken (--max-loras)"));
  }
  options_.put(*loaded->slot, std::make_shared<const Adapter>(*std::move(adapter)));
  const std::lock_guard lock(mutex_);
  adapters_.emplace(name, std::move(loaded));
  return absl::OkStatus();
}

bool AdapterRegistry::Unload(std::string_view name) {
  std::shared_ptr<const LoadedAdapter> gone;  // its slot is given back without the lock
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(name);
  if (found == adapters_.end()) return false;
  gone = std::move(found->second);
  adapters_.erase(found);
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

absl::Status ParseAdapterModule(std::string_view text, AdapterModule* out) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0 || equals + 1 == text.size()) {
    return absl::InvalidArgumentError(absl::StrCat("'", std::string(text), "' is not NAME=PATH"));
  }
  *out = {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
  return absl::OkStatus();
}

}  // namespace hydrant
