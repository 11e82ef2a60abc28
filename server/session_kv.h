// What a server's KV files are of, and how the keeper of them comes to know the rest of the server.
//
// Thread: the main one, while the server starts; the digests any.
#ifndef HYDRANT_SERVER_SESSION_KV_H_
#define HYDRANT_SERVER_SESSION_KV_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/kv_cache_view.h"
#include "model/checkpoint/checkpoint.h"
#include "server/kv/kv_resolution.h"
#include "server/process/sha256.h"
#include "server/sessions/kv/kv_keeper.h"
#include "server/sessions/session_store.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {

// What a session's tokens and policies depend on. A past is gone on from where all of it is the same.
ModelId MakeModelId(const Tokenizer& tokenizer, const ModelConfig& model, const KvModelFacts& facts);

// Stands for the content of a model: a checksum of each MiB of every file with weights, and the configuration beside them. The same
// weights under another name are the same model, and others under the same name are not. Reads the files once, at 9 GB/s where they are
// in memory. `path`: Checkpoint::Open's.
//
// A checksum of 32 bits is the same by accident once in four thousand million; models that differ do so in most of their MiB.
absl::StatusOr<Sha256Digest> DigestOfModel(const Checkpoint& checkpoint, const std::string& path);

// The same of what the server makes of it: `made_of_it` names formats of weights and whatever else changes a key or a value.
Sha256Digest DigestOfServed(const Sha256Digest& model, std::string_view made_of_it);

// `layout` is of the cache that KV is exported from.
KvFormat MakeKvFormat(const DirectoryId& directory, const Sha256Digest& model, std::string_view device,
                      const KvCacheLayout& layout);

// Not started. `journal` and `tenants` outlive it. `bytes_max`: of all files;
// `bytes_per_s`, `read_max_us`: KvKeeper::Options'.
std::unique_ptr<KvKeeper> MakeKvKeeper(SessionJournal& journal, const TenantRegistry& tenants, KvFormat format,
                                       int64_t bytes_max, int64_t bytes_per_s, int64_t read_max_us,
                                       std::function<int64_t(const std::string&)> bytes_max_of);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSION_KV_H_
