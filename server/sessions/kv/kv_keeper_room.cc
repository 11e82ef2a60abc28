// The part of KvKeeper that gives room back: to files that are to come, and to the log, which is on the same volume.
#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "server/sessions/kv/kv_keeper.h"

namespace hydrant {

// What all files may take at present. `own_bytes`: what the one that is to come has on the disk already. `restores`: what the volume has
// too little of is given back. Else a file pushes out as much as it takes, and no more: file systems say late that what was removed is
// free, and every file would remove as much again until they do.
int64_t KvKeeper::BytesMaxNow(int64_t own_bytes, bool restores) {
  if (options_.free_bytes_min == 0) return options_.bytes_max;
  const int64_t free_bytes = disk_.FreeBytes();
  if (free_bytes < 0) return options_.bytes_max;  // it is not known
  int64_t more = free_bytes + own_bytes - options_.free_bytes_min;
  if (!restores) more = std::max<int64_t>(0, more);
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::clamp<int64_t>(catalogue_.bytes() + more, 0, options_.bytes_max);
}

// Whether so much may come from elsewhere, which takes its room before it is known whether others will make it: half of what is the
// log's, for as long as that is.
bool KvKeeper::HasRoomFor(int64_t incoming) {
  if (options_.free_bytes_min == 0) return true;
  const int64_t free_bytes = disk_.FreeBytes();
  return free_bytes < 0 || incoming <= free_bytes - options_.free_bytes_min / 2;
}

// What makes room may be the very file that this one would go on from.
bool KvKeeper::MakeRoomFor(const KvWrite& write, KvFileHeader* header, std::string* head) {
  if (!MakeRoom(write, *header)) return false;
  if (header->base_turn == 0) return true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (catalogue_.Find(write.binding.session) != nullptr) return true;
  }
  header->base_turn = 0;
  header->base_bytes = 0;
  head->replace(0, kKvHeaderBytes, EncodeKvHeader(*header));
  return MakeRoom(write, *header);
}

bool KvKeeper::MakeRoom(const KvWrite& write, const KvFileHeader& header) {
  std::vector<SessionName> losers;
  const int64_t bytes_max = BytesMaxNow(write.received != nullptr ? disk_.BytesOf(header) : 0, /*restores=*/false);
  {
    const KvCatalogue::Newcomer file = {disk_.BytesOf(header), write.tenant, write.binding.session,
                                        header.base_turn != 0};
    const int64_t tenant_bytes_max = options_.bytes_max_of(write.tenant);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!catalogue_.MakeRoom(file, bytes_max, tenant_bytes_max, options_.weight_of, &losers)) return false;
    counts_.evicted += losers.size();
  }
  for (const SessionName& session : losers) Lose(session);
  return true;
}

// What there is too much of goes: the limit may have been another one before, and the volume is not the files' alone.
void KvKeeper::CutToSize() {
  if (options_.clock() < cut_at_us_) return;
  const int64_t bytes_max = BytesMaxNow(0, /*restores=*/true);
  std::vector<SessionName> losers;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (catalogue_.bytes() <= bytes_max) return;
    (void)catalogue_.MakeRoom({}, bytes_max, 0, options_.weight_of, &losers);
    counts_.evicted += losers.size();
  }
  cut_at_us_ = options_.clock() + options_.retry_us;
  for (const SessionName& session : losers) Lose(session);
}

}  // namespace hydrant
