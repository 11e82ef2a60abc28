// LogIndex is what is known of the sessions in the log without reading it: for each its facts and where its last record is. A
// checkpoint is the index as it was when a segment began, so that a start reads that and what came after it.
//
// Thread: none of its own; SessionLog holds its lock.
//
// Invariants
//  1. The records of a session are a chain: each kTurn names the place of the one that it goes on from, down to a kReplace. `last` is
//     the newest of the chain.
//  2. A record enters the chain only if it is a kReplace, or if it goes on from `last`, or is the same turn as `last` and goes on
//     from the same record: what was written again after a failed sync. Any other is an orphan and changes nothing.
//  3. A session's end marks every segment that has a record of it: its chain's, and those of the chains before, which were replaced
//     or moved and are there for as long as the segment is.
#ifndef HYDRANT_SERVER_SESSIONS_JOURNAL_LOG_INDEX_H_
#define HYDRANT_SERVER_SESSIONS_JOURNAL_LOG_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/sessions/journal/log_record.h"

namespace hydrant {

struct LoggedSession {
  LogPlace last;
  LogPlace before;             // what `last` goes on from
  uint32_t first_segment = 0;  // the lowest with a record of the chain
  uint32_t records = 0;        // of the chain
  uint64_t bytes = 0;          // of the chain
  uint64_t turn = 0;
  int64_t used_s = 0;
  bool unreadable = false;  // a record that a later version wrote must not be passed over
  // A start may find something else in the place of `last`: a copy of it that was never said to be durable, or nothing. The next
  // record has to be a whole one. Not kept in a checkpoint, which is written when all of this is certain.
  bool uncertain = false;
  // Segments with records of it other than `last`, of this chain and of those before, ascending.
  std::vector<uint32_t> left_in;
  SessionFacts facts;
};

// A segment with records of sessions that are gone.
struct ForgottenIn {
  int64_t since_s = 0;  // Unix time: the longest
  std::set<SessionName>
      names;  // of these sessions; fewer than there are after a start from an older version's checkpoint
  bool operator==(const ForgottenIn&) const = default;
};

// Names are as good as random: half of one is its hash.
struct SessionNameHash {
  size_t operator()(const SessionName& name) const {
    uint64_t bits = 0;
    std::memcpy(&bits, name.data(), sizeof(bits));
    return bits;
  }
};

// A checkpoint as it is written: with keys sealed; and back. nullopt: these keys do not open it.
std::string SealIndex(const SessionKeys* keys, uint32_t segment, const DirectoryId& directory, std::string index);
std::optional<std::string> OpenIndex(const SessionKeys* keys, uint32_t segment, const DirectoryId& directory,
                                     std::string bytes);

class LogIndex {
 public:
  enum class Applied { kYes, kOrphan };
  // A record of the log, in the order of the log. `facts`: of its payload, without those of a kForget.
  Applied Apply(const RecordHeader& header, LogPlace place, SessionFacts facts);

  const LoggedSession* Find(const SessionName& name) const;
  void SetUncertain(const SessionName& name);
  // Those whose last record is in this segment or a later one.
  void SetUncertainFrom(uint32_t segment);
  const absl::flat_hash_map<SessionName, LoggedSession, SessionNameHash>& sessions() const { return sessions_; }
  int64_t bytes() const { return bytes_; }  // of all chains
  const std::map<uint32_t, ForgottenIn>& forgotten() const { return forgotten_; }
  // The sessions that have left something in a segment: DropSegment's, once the segment is no more.
  std::vector<SessionName> LeftIn(uint32_t segment) const;
  void DropSegment(uint32_t segment, const std::vector<SessionName>& left_in);
  // No other segment is there: what is known of others is forgotten.
  void KeepSegments(const std::set<uint32_t>& segments);
  // It came from an older version's checkpoint, which did not say in which segments sessions have left something.
  bool knows_chains_alone() const { return knows_chains_alone_; }
  // A session's chain has a record in it.
  bool HasChainIn(uint32_t segment) const;

  std::string Checkpoint(uint32_t segment, const DirectoryId& directory) const;
  // nullopt: not a whole checkpoint of this directory and segment.
  static std::optional<LogIndex> FromCheckpoint(std::string_view bytes, uint32_t segment, const DirectoryId& directory);

 private:
  absl::flat_hash_map<SessionName, LoggedSession, SessionNameHash> sessions_;
  std::map<uint32_t, ForgottenIn> forgotten_;
  int64_t bytes_ = 0;
  bool knows_chains_alone_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_JOURNAL_LOG_INDEX_H_
