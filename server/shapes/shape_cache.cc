#include "server/shapes/shape_cache.h"

#include <utility>

#include "server/process/clock.h"

namespace hydrant {
namespace {

constexpr int32_t kNobody = -1;  // of the tenants

// A key is kept twice, and has an entry.
size_t BytesOf(const ShapeCache::Key& key) {
  size_t bytes = 512 + 2 * (key.spec.text.size() + key.salt.size());
  for (const std::string& choice : key.spec.choices) bytes += 2 * (sizeof(choice) + choice.size());
  return bytes;
}

}  // namespace

ShapeCache::ShapeCache(std::shared_ptr<const ShapeVocabulary> vocabulary, Options options)
    : vocabulary_(std::move(vocabulary)), options_(options) {}

void ShapeCache::Charge(Entry& entry) {
  size_t bytes = BytesOf(entry.key);
  if (entry.result.has_value() && entry.result->index() == 0) bytes += std::get<0>(*entry.result)->bytes();
  HeldBy(entry.key.tenant) += bytes - entry.bytes;
  bytes_ += bytes - entry.bytes;
  entry.bytes = bytes;
}

void ShapeCache::Forget(Entries::iterator entry) {
  HeldBy(entry->key.tenant) -= entry->bytes;
  bytes_ -= entry->bytes;
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

// Those of a tenant that has too many first. One that is being compiled stays, and so does the one used last, if it was
// asked for.
void ShapeCache::MakeRoom(int32_t tenant) {
  for (const bool all : {false, true}) {
    for (const bool asked_for : {false, true}) MakeRoom(all ? kNobody : tenant, asked_for);
  }
}

void ShapeCache::MakeRoom(int32_t tenant, bool asked_for) {
  const bool all = tenant == kNobody;
  for (auto at = entries_.end(); at != entries_.begin();) {
    const size_t held = all ? bytes_ : HeldBy(tenant);
    if (held <= (all ? options_.bytes_max : options_.tenant_bytes_max)) break;
    --at;
    if (asked_for && at == entries_.begin()) break;
    const bool stays = !at->result.has_value() || (!all && at->key.tenant != tenant);
    if (stays || at->key.is_asked_for != asked_for) continue;
    const auto gone = at++;
    Forget(gone);
  }
}

std::optional<ShapeResult> ShapeCache::FindLocked(const Key& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || !found->second->result.has_value()) return std::nullopt;
  ++counts_.hits;
  entries_.splice(entries_.begin(), entries_, found->second);
  ShapeResult result = *found->second->result;
  // It has grown since it was used last.
  Charge(*found->second);
  MakeRoom(key.tenant);
  return result;
}

std::optional<ShapeResult> ShapeCache::Find(const Key& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return FindLocked(key);
}

ShapeResult ShapeCache::Get(const Key& key) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (by_key_.contains(key)) {
    if (std::optional<ShapeResult> found = FindLocked(key)) return *std::move(found);
    compiled_.wait(lock);  // or it failed, and is not there any more
  }
  tenant_bytes_.try_emplace(key.tenant);  // so that charging takes no memory
  entries_.push_front({key, std::nullopt, 0});
  const Entries::iterator entry = entries_.begin();
  try {
    by_key_.try_emplace(key, entry);
  } catch (...) {
    entries_.pop_front();
    throw;
  }
  lock.unlock();
  const int64_t begin_us = MonotonicUs();
  std::optional<ShapeResult> result, kept;
  try {
    kept = result = CompiledShape::Compile(key.spec, vocabulary_, key.messages);
  } catch (...) {
    lock.lock();
    Forget(entry);
    compiled_.notify_all();
    throw;
  }
  lock.lock();
  counts_.compile_seconds += static_cast<double>(MonotonicUs() - begin_us) * 1e-6;
  ++(result->index() == 0 ? counts_.compiled : counts_.refused);
  entry->result = std::move(kept);
  Charge(*entry);
  entries_.splice(entries_.begin(), entries_, entry);
  MakeRoom(key.tenant);
  compiled_.notify_all();
  return *std::move(result);
}

ShapeCounts ShapeCache::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  ShapeCounts counts = counts_;
  counts.kept = static_cast<int64_t>(entries_.size());
  counts.kept_bytes = static_cast<int64_t>(bytes_);
  return counts;
}

}  // namespace hydrant
