#include "server/frontend/request_directory.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace hydrant {

RequestDirectory::Entry::Entry(RequestDirectory& directory, std::vector<std::string> names, int32_t tenant,
                               uint64_t first_id, int32_t count)
    : directory_(directory) {
  std::erase(names, "");
  const std::lock_guard<std::mutex> lock(directory_.mutex_);
  place_ = directory_.open_.insert(directory_.open_.end(), Open{std::move(names), tenant, first_id, count});
}

RequestDirectory::Entry::~Entry() {
  const std::lock_guard<std::mutex> lock(directory_.mutex_);
  directory_.open_.erase(place_);
}

bool RequestDirectory::Entry::aborted() const {
  const std::lock_guard<std::mutex> lock(directory_.mutex_);
  return place_->aborted;
}

int32_t RequestDirectory::Abort(const Selection& selection, EnginePort& engine) {
  const absl::flat_hash_set<std::string> wanted(selection.ids.begin(), selection.ids.end());
  int32_t aborted = 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Open& request : open_) {
    if (request.aborted || (selection.tenant.has_value() && request.tenant != *selection.tenant)) continue;
    const auto is_wanted = [&wanted](const std::string& name) { return wanted.contains(name); };
    if (!wanted.empty() && std::none_of(request.names.begin(), request.names.end(), is_wanted)) continue;
    engine.Cancel({{request.first_id, static_cast<uint64_t>(request.count)}});
    request.aborted = true;
    ++aborted;
  }
  return aborted;
}

}  // namespace hydrant
