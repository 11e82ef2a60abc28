// KvCatalogue is what is known of the KV files that there are: whose they are, how large, and which of them go where there are too
// many.
//
// Beyond a tenant's own limit its sessions used least recently lose their files. Beyond that of all, the tenant that has the most for its
// weight loses those of its own, and has no room for another where it has none left to lose: nobody who keeps to a share is pushed out
// by somebody who does not.
//
// Thread: none of its own; KvKeeper holds its lock. Pure.
//
// Invariants
//  1. A session has one file at most, and those that it goes on from.
//  2. bytes() is the sum of all files', and a tenant's of its own.
#ifndef HYDRANT_SERVER_SESSIONS_KV_KV_CATALOGUE_H_
#define HYDRANT_SERVER_SESSIONS_KV_KV_CATALOGUE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "server/sessions/journal/log_index.h"
#include "server/sessions/journal/log_record.h"

namespace hydrant {

struct KvFileEntry {
  uint64_t turn = 0;
  int64_t bytes = 0;
  int64_t used_s = 0;           // Unix time: when its session was used last
  std::string tenant;           // its name
  std::vector<uint64_t> bases;  // the turns of the files that it goes on from, whose bytes are in `bytes`
  bool damaged = false;         // what was read was not what was written: nothing goes on from it
};

class KvCatalogue {
 public:
  using WeightOf = absl::FunctionRef<double(const std::string& tenant)>;  // > 0

  // The session's file; null: it has none. Valid until the next change.
  const KvFileEntry* Find(const SessionName& session) const;
  void Put(const SessionName& session, KvFileEntry entry);
  void Remove(const SessionName& session);
  void SetDamaged(const SessionName& session);

  // A file that is to come.
  struct Newcomer {
    int64_t bytes = 0;
    std::string tenant;
    SessionName session{};
    bool goes_on =
        false;  // from the session's files: of its tenant's they are the last to go. Else the first, for it replaces them
  };
  // Which sessions are to lose their files so that it has room. False, and none is to: there is no room whoever goes, or its tenant
  // would have the most for its weight by this file alone. `bytes_max` is of all files, `tenant_bytes_max` of the tenant's; 0: no limit
  // of its own. REQUIRES: `losers` is empty.
  bool MakeRoom(const Newcomer& file, int64_t bytes_max, int64_t tenant_bytes_max, WeightOf weight_of,
                std::vector<SessionName>* losers) const;

  int64_t bytes() const { return bytes_; }
  int64_t size() const { return static_cast<int64_t>(files_.size()); }

 private:
  struct Tenant {
    int64_t bytes = 0;
    std::set<std::pair<int64_t, SessionName>> by_use;  // used_s, session
  };

  absl::flat_hash_map<SessionName, KvFileEntry, SessionNameHash> files_;
  std::map<std::string, Tenant> tenants_;  // those with files
  int64_t bytes_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_KV_KV_CATALOGUE_H_
