// ShapeCache keeps compiled shapes, least recently used last. What one tenant's requests compiled no other tenant finds, nor requests
// of another cache_salt: how long a compile takes would tell whether somebody else has used a schema. Refusals are kept, too. What nobody
// asked for is forgotten before all that somebody did.
//
// Thread: any. Get compiles where it is called, and waits where another thread compiles the same: for the workers of a pool.
//
// Invariants
//  1. A tenant's shapes take at most tenant_bytes_max, all together at most bytes_max, but for the one used last.
//  2. What is in use stays alive, whatever the cache forgets.
#ifndef HYDRANT_SERVER_SHAPES_SHAPE_CACHE_H_
#define HYDRANT_SERVER_SHAPES_SHAPE_CACHE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "api/request/constraint.h"
#include "model/grammar/refusal.h"
#include "model/grammar/regex/steady_map.h"
#include "server/shapes/compiled_shape.h"
#include "server/shapes/shape_vocabulary.h"

namespace hydrant {

using ShapeResult = std::variant<std::shared_ptr<CompiledShape>, grammar::Refusal>;

// Sums since the start, and what is there now.
struct ShapeCounts {
  uint64_t compiled = 0;
  uint64_t refused = 0;
  uint64_t hits = 0;
  double compile_seconds = 0;  // by the clock, refusals included
  int64_t kept = 0;            // in the cache
  int64_t kept_bytes = 0;
};

class ShapeCache {
 public:
  struct Options {
    size_t tenant_bytes_max = size_t{32} << 20;
    size_t bytes_max = size_t{256} << 20;
  };
  struct Key {
    int32_t tenant = 0;
    std::string salt;
    ConstraintSpec spec;
    bool is_asked_for = true;  // else it is compiled because that is better
    std::optional<grammar::MessageMarks> messages = std::nullopt;

    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      h = H::combine(std::move(h), key.tenant, key.salt, key.spec, key.is_asked_for, key.messages.has_value());
      return key.messages.has_value() ? H::combine(std::move(h), *key.messages) : std::move(h);
    }
  };

  ShapeCache(std::shared_ptr<const ShapeVocabulary> vocabulary, Options options);
  explicit ShapeCache(std::shared_ptr<const ShapeVocabulary> vocabulary)
      : ShapeCache(std::move(vocabulary), Options()) {}

  const ShapeVocabulary& vocabulary() const { return *vocabulary_; }
  // What is there, at once; nullopt: nothing is, or not yet.
  std::optional<ShapeResult> Find(const Key& key);
  // The same, or compiled now. Throws std::bad_alloc.
  ShapeResult Get(const Key& key);
  ShapeCounts counts() const;

 private:
  struct Entry {
    Key key;
    std::optional<ShapeResult> result;  // nullopt: a thread compiles it
    size_t bytes = 0;                   // charged
  };
  using Entries = std::list<Entry>;  // used last first

  // All REQUIRE mutex_ held.
  std::optional<ShapeResult> FindLocked(const Key& key);
  void Charge(Entry& entry);
  void Forget(Entries::iterator entry);
  void MakeRoom(int32_t tenant);
  // Looks at those of a tenant, or of all, that were asked for, or that were not.
  void MakeRoom(int32_t tenant, bool asked_for);
  size_t& HeldBy(int32_t tenant) { return tenant_bytes_.find(tenant)->second; }  // takes no memory

  const std::shared_ptr<const ShapeVocabulary> vocabulary_;
  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable compiled_;
  // Guarded by mutex_.
  Entries entries_;
  grammar::SteadyMap<Key, Entries::iterator> by_key_;
  grammar::SteadyMap<int32_t, size_t> tenant_bytes_;  // of every tenant that has had an entry
  size_t bytes_ = 0;
  ShapeCounts counts_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SHAPES_SHAPE_CACHE_H_
