#include "server/session_kv.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/files/mapped_file.h"
#include "server/process/clock.h"
#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

constexpr size_t kDigestChunkBytes = 1 << 20;
constexpr size_t kConfigBytesMax = 16 << 20;

// A tenant's weight, from the registry as it is now; of one that nobody names any more, 1. Asked under one lock (KvKeeper's), for all
// tenants with files one after the other.
class TenantWeights {
 public:
  explicit TenantWeights(const TenantRegistry& tenants) : tenants_(tenants) {}
  double Of(const std::string& tenant) {
    std::shared_ptr<const TenantTable> table = tenants_.table();
    if (table != table_) {
      weights_.clear();
      for (const auto* entries : {&table->entries(), &table->gone()}) {
        for (const auto& entry : *entries) weights_[entry->config.name] = entry->config.weight;
      }
      table_ = std::move(table);
    }
    const auto found = weights_.find(tenant);
    return found == weights_.end() ? 1.0 : found->second;
  }

 private:
  const TenantRegistry& tenants_;
  std::shared_ptr<const TenantTable> table_;
  std::map<std::string, double> weights_;
};

}  // namespace

ModelId MakeModelId(const Tokenizer& tokenizer, const ModelConfig& model, const KvModelFacts& facts) {
  std::string what = absl::StrCat(model.vocab, " ", facts.query_heads, " ", facts.kv_heads, " ", facts.rotary ? 1 : 0);
  for (int32_t id = 0; id < model.vocab; ++id) what.append("\n").append(tokenizer.TokenPiece(id));
  const Sha256Digest digest = Sha256(what);
  ModelId name{};
  std::copy_n(digest.begin(), name.size(), name.begin());
  return name;
}

absl::StatusOr<Sha256Digest> DigestOfModel(const Checkpoint& checkpoint, const std::string& path) {
  std::string what;
  for (const std::unique_ptr<MappedFile>& file : checkpoint.files) {
    const std::string_view bytes = file->bytes();
    PutFixed(static_cast<uint64_t>(bytes.size()), &what);
    for (size_t at = 0; at < bytes.size(); at += kDigestChunkBytes) {
      PutFixed(Crc32c(bytes.substr(at, kDigestChunkBytes)), &what);
    }
  }
  // One file with everything in it has no configuration beside it.
  if (std::error_code error; std::filesystem::is_directory(path, error)) {
    absl::StatusOr<WeightDirectory> directory = WeightDirectory::Open(path);
    if (!directory.ok()) return directory.status();
    absl::StatusOr<std::string> config = directory->Read("config.json", kConfigBytesMax);
    if (!config.ok()) return config.status();
    PutString(*config, &what);
  }
  return Sha256(what);
}

Sha256Digest DigestOfServed(const Sha256Digest& model, std::string_view made_of_it) {
  std::string what;
  PutArray(model, &what);
  PutString(made_of_it, &what);
  return Sha256(what);
}

KvFormat MakeKvFormat(const DirectoryId& directory, const Sha256Digest& model, std::string_view device,
                      const KvCacheLayout& layout) {
  KvFormat format;
  format.directory = directory;
  format.model = model;
  format.device = device;
  format.layers = layout.layers;
  format.kv_heads = layout.kv_heads;
  format.head_dim = layout.head_dim;
  format.type = static_cast<uint8_t>(layout.type);
  format.inspected = layout.inspected;
  format.block_bytes = static_cast<int64_t>(layout.block_bytes());
  return format;
}

std::unique_ptr<KvKeeper> MakeKvKeeper(SessionJournal& journal, const TenantRegistry& tenants, KvFormat format,
                                       int64_t bytes_max, int64_t bytes_per_s, int64_t read_max_us,
                                       std::function<int64_t(const std::string&)> bytes_max_of) {
  KvKeeper::Options options;
  options.bytes_max = bytes_max;
  // A segment, and a checkpoint: the log writes both before it removes what they replace.
  options.free_bytes_min = 2 * journal.segment_bytes();
  options.bytes_per_s = bytes_per_s;
  options.read_max_us = read_max_us;
  options.clock = MonotonicUs;
  options.weight_of = [weights = std::make_shared<TenantWeights>(tenants)](const std::string& name) {
    return weights->Of(name);
  };
  options.bytes_max_of = std::move(bytes_max_of);
  options.owner_of = [&journal](const SessionName& name) -> std::optional<KvKeeper::Options::Owner> {
    std::optional<LoggedSession> session = journal.Find(name);
    if (!session.has_value()) return std::nullopt;
    return KvKeeper::Options::Owner{session->turn, session->used_s, std::move(session->facts.tenant)};
  };
  options.keys = journal.keys();
  options.on_swept = [&journal](bool all) {
    if (all) journal.NoteKvResealed();
  };
  return std::make_unique<KvKeeper>(journal.TakeKv(), std::move(format), std::move(options));
}

}  // namespace hydrant
