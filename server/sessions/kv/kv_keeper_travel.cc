// The part of KvKeeper that has files leave for other servers, and come from them.
#include <new>
#include <utility>

#include "server/sessions/kv/kv_keeper.h"

namespace hydrant {

std::string_view KvOutcomeName(KvOutcome outcome) {
  static constexpr std::string_view kNames[] = {"taken", "no_room", "busy", "went_on", "io"};
  return kNames[static_cast<size_t>(outcome)];
}

std::unique_ptr<KvOutgoing> KvKeeper::Send(std::shared_ptr<const OpenKvFile> file) {
  KvReject reject = KvReject::kNone;
  const auto on_damage = [this, session = file->header().binding.session](KvReject why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    NoteUnread(session, why);
  };
  std::unique_ptr<KvOutgoing> outgoing = KvOutgoing::Open(disk_, std::move(file), &reject);
  if (outgoing != nullptr) {
    outgoing->OnDamage(on_damage);
  } else {
    on_damage(reject);
  }
  return outgoing;
}

// What has come is what counts: whoever announces much and sends nothing keeps nobody out.
bool KvKeeper::LetIn(int64_t own_bytes, int64_t more) {
  if (!HasRoomFor(more)) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool alone = incoming_bytes_ == own_bytes;
  if (stopping_ || (!alone && incoming_bytes_ + more > options_.reading_bytes_max)) return false;
  incoming_bytes_ += more;
  return true;
}

std::unique_ptr<KvIncoming> KvKeeper::Receive(const KvBinding& expected, int64_t bytes, KvOutcome* why) {
  uint64_t number = 0;
  const bool has_room = bytes <= options_.bytes_max && HasRoomFor(bytes);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    *why = has_room ? KvOutcome::kBusy : KvOutcome::kNoRoom;
    const bool fits = incoming_bytes_ == 0 || incoming_bytes_ + bytes <= options_.reading_bytes_max;
    if (stopping_ || !has_room || !fits) return nullptr;
    number = ++incoming_;
  }
  const std::string name =
      KvFileName(expected.session, expected.turn) + incoming_mark_ + std::to_string(number) + ".kv.tmp";
  std::unique_ptr<KvIncoming> incoming = disk_.Receive(expected, name);
  incoming->OnBytes([this](int64_t own_bytes, int64_t more) { return LetIn(own_bytes, more); },
                    [this](int64_t own_bytes) {
                      const std::lock_guard<std::mutex> lock(mutex_);
                      incoming_bytes_ -= own_bytes;
                    });
  return incoming;
}

}  // namespace hydrant
