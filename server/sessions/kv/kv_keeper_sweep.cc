// The part of KvKeeper that looks at the files a start finds: which belong to sessions, and together, and which go.
#include <algorithm>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

#include "server/process/log.h"
#include "server/sessions/kv/kv_keeper.h"

namespace hydrant {
namespace {

// Between two of them the writer looks for what is more urgent: a name costs 30 µs.
constexpr size_t kSweptAtOnce = 64;

}  // namespace

// What is there at the first call, as long as it was not looked at.
KvKeeper::Unswept& KvKeeper::ListUnswept() {
  if (unswept_.has_value()) return *unswept_;
  std::vector<std::string> names;
  const int error = disk_.List(&names);
  if (error < 0) {
    resealed_ = false;  // nobody knows what is there
    CountError();
  }
  Unswept unswept;
  for (std::string& name : names) {
    if (const std::optional<KvFileNameParts> file = ParseKvFileName(name)) {
      unswept.turns[file->session].push_back(file->turn);
    } else {
      unswept.strays.push_back(std::move(name));
    }
  }
  return unswept_.emplace(std::move(unswept));
}

// Whether the file is gone. Else it is tried again, for it says what was said.
bool KvKeeper::RemoveFile(const SessionName& session, uint64_t turn) {
  const int error = disk_.Remove(session, turn, /*sync=*/false);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (error == 0) {
    if (left_.erase({session, turn}) != 0 && left_.empty()) Log(LogLevel::kInfo, "no KV file is left that was to go");
    return true;
  }
  if (left_.empty()) {
    const LogField field{"errno", -error};
    Log(LogLevel::kWarning, "KV files of sessions cannot be removed; it is tried again", {&field, 1});
    left_at_us_ = options_.clock() + options_.retry_us;
  }
  if (left_.insert({session, turn}).second) ++counts_.errors;
  return false;
}

bool KvKeeper::HasLeft(const SessionName& session) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return HasLeftNow(session);
}

// REQUIRES: the lock.
bool KvKeeper::HasLeftNow(const SessionName& session) const {
  const auto found = left_.lower_bound({session, 0});
  return found != left_.end() && found->first == session;
}

// Tries again what is left of the session. Whether nothing is.
bool KvKeeper::RemoveLeftOf(const SessionName& session) {
  std::vector<uint64_t> turns;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = left_.lower_bound({session, 0}); it != left_.end() && it->first == session; ++it) {
      turns.push_back(it->second);
    }
  }
  bool gone = true;
  for (const uint64_t turn : turns) gone = RemoveFile(session, turn) && gone;
  return gone;
}

void KvKeeper::RemoveLeft() {
  if (options_.clock() < left_at_us_) return;
  left_at_us_ = options_.clock() + options_.retry_us;
  std::set<std::pair<SessionName, uint64_t>> left;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    left = left_;
  }
  for (const std::pair<SessionName, uint64_t>& file : left) (void)RemoveFile(file.first, file.second);
}

// The session's files that the sweep has yet to come to: whoever has them removed does not wait for it.
void KvKeeper::RemoveUnswept(const SessionName& session) {
  Unswept& unswept = ListUnswept();
  const auto found = unswept.turns.find(session);
  if (found == unswept.turns.end()) return;
  std::vector<uint64_t>& turns = found->second;
  // The newest first: none is without what it goes on from.
  std::sort(turns.begin(), turns.end(), std::greater<>());
  for (const uint64_t turn : turns) {
    (void)RemoveFile(session, turn);
  }
  unswept.turns.erase(found);
}

void KvKeeper::SweepSome() {
  Unswept& unswept = ListUnswept();
  for (size_t i = 0; i < kSweptAtOnce && !unswept.strays.empty(); ++i) {
    const std::string name = std::move(unswept.strays.back());
    unswept.strays.pop_back();
    SweepStray(name);
  }
  for (size_t i = 0; i < kSweptAtOnce && !unswept.turns.empty(); ++i) {
    const auto next = unswept.turns.extract(unswept.turns.begin());
    SweepSession(next.key(), next.mapped());
  }
  if (!unswept.strays.empty() || !unswept.turns.empty()) return;
  CutToSize();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    swept_ = true;
    unread_ = std::vector<SessionName>();
  }
  if (options_.on_swept) options_.on_swept(resealed_);
}

// The files of the session that belong together, or may; nullopt: none is of its last turn. Of which weights they are, and whether they
// are whole, is asked by whoever goes on from them: those of other weights stay.
std::optional<KvFileEntry> KvKeeper::FilesOf(const SessionName& session, const std::vector<uint64_t>& turns) {
  const std::optional<Options::Owner> owner = options_.owner_of(session);
  if (!owner.has_value() || std::find(turns.begin(), turns.end(), owner->turn) == turns.end()) return std::nullopt;
  KvFileEntry entry = {owner->turn, 0, owner->used_s, owner->tenant, {}};
  for (uint64_t newer = owner->turn; turns.size() > 1 && newer != 0;) {
    const std::optional<KvFileHeader> header = disk_.ReadHeader(session, newer);
    if (!header.has_value()) {
      // It may be there tomorrow, or with the key that it wants: all that it could go on from waits for it.
      std::copy_if(turns.begin(), turns.end(), std::back_inserter(entry.bases),
                   [newer](uint64_t turn) { return turn < newer; });
      break;
    }
    const bool is_there = std::find(turns.begin(), turns.end(), header->base_turn) != turns.end();
    if (is_there) entry.bases.push_back(header->base_turn);
    newer = is_there && header->base_turn < newer ? header->base_turn : 0;
  }
  std::sort(entry.bases.begin(), entry.bases.end());
  return entry;
}

// REQUIRES: all turns of which there are files.
void KvKeeper::SweepSession(const SessionName& session, const std::vector<uint64_t>& turns) {
  std::optional<KvFileEntry> known;  // what was written meanwhile
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const KvFileEntry* entry = catalogue_.Find(session)) known = *entry;
  }
  std::optional<KvFileEntry> kept = known.has_value() ? known : FilesOf(session, turns);
  bool is_ours = kept.has_value();
  for (const uint64_t turn : turns) {
    const std::string name = KvFileName(session, turn);
    const bool stays = kept.has_value() && (turn == kept->turn || std::find(kept->bases.begin(), kept->bases.end(),
                                                                            turn) != kept->bases.end());
    if (!stays) {
      (void)RemoveFile(session, turn);
      continue;
    }
    if (const int error = disk_.Reseal(name); error < 0) {
      resealed_ = false;
      CountError();
    }
    const int64_t bytes = disk_.SizeOf(name);
    is_ours = is_ours && bytes >= 0;  // else somebody else's, or it cannot be read: left alone
    kept->bytes += std::max<int64_t>(0, bytes);
  }
  if (!is_ours || known.has_value()) return;
  const uint64_t turn = kept->turn;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept->damaged = !unread_.has_value() || std::find(unread_->begin(), unread_->end(), session) != unread_->end();
    catalogue_.Put(session, *std::move(kept));
  }
  Tell(session, turn);
}

void KvKeeper::SweepStray(const std::string& name) {
  if (!name.ends_with(".kv.tmp") || name.find(incoming_mark_) != std::string::npos) return;  // none of ours, or coming
  if (disk_.RemoveNamed(name) < 0) CountError();
}

}  // namespace hydrant
