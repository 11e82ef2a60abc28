// Victims says who steps aside for whom (swapping.h), and what that wins.
//
// A sequence of the tenant that has most for its weight, of those above their weighted share of the pool, or one of the
// tenant that asks: a tenant within its share gives nothing for others. Of a tenant's it is the one that stepped aside
// least often, of these the one with the fewest blocks, of equal ones the youngest. For one that comes back it is the
// smallest that makes all the room, or else the largest. Where a state row is missing it goes by the tenants' shares of the rows
// instead: who has most of them for its weight, of those above their share and above the rows of their floors.
//
// Thread: engine. Pure, without state of its own.
#ifndef HYDRANT_SCHEDULER_VICTIMS_H_
#define HYDRANT_SCHEDULER_VICTIMS_H_

#include <cstdint>
#include <limits>

#include "block_manager/block_manager.h"
#include "scheduler/sequence_table.h"
#include "scheduler/tenant_list.h"

namespace hydrant {

// For whose sake somebody steps aside.
struct Asker {
  int32_t tenant = 0;
  int32_t sequence = -1;      // the one that grows or comes back; -1: it waits to be admitted
  int64_t claims = 0;         // blocks by which its tenant would claim more
  int64_t blocks = 0;         // that are missing for it
  bool own_alone = false;     // its tenant's cap holds it back, so nobody else's blocks would help
  bool rotates = false;       // it has been outside for long, and so those step aside alone that have rested (Rested)
  bool others_alone = false;  // it is a head of line, for which its own tenant's gain nothing
  bool row = false;           // it misses a state row
};

class Victims {
 public:
  // Sequence::guard of one whose KV is lost: it fails with its next row and is not moved before.
  static constexpr int32_t kLostGuard = std::numeric_limits<int32_t>::max();

  // Own tokens before a sequence that came back may have to go again.
  static constexpr int32_t kGuard = 64;

  // The arguments outlive this.
  Victims(const SequenceTable& sequences, const TenantList& tenants, const BlockManager& block_manager)
      : sequences_(sequences), tenants_(tenants), block_manager_(block_manager) {}

  // The index of the one that steps aside, which may be the asker's; -1: nobody may. `anchor` never does, nor one that has more than
  // `room` blocks.
  int32_t Choose(const Asker& asker, int32_t anchor, int64_t room) const;
  // Likewise, whose leaving gives a state row to the asker.
  int32_t ChooseForRow(const Asker& asker, int32_t anchor, int64_t room) const;

  // Blocks that the tenant wins if the sequence leaves the pool. What the sequence's tenant then lacks of its floor stays reserved
  // for it.
  int64_t GainFrom(const Sequence& sequence, int32_t tenant) const;

  // It has had as many tokens since it was let in or came back as one needs that makes room for another one's return: 64, twice as
  // many after it came back, and four times as many when it has come back twice or more.
  static bool Rested(const Sequence& sequence);

  // Its next row is its last.
  static bool EndsSoon(const Sequence& sequence) { return sequence.continues() && sequence.steps_after_next() <= 0; }

 private:
  bool MayLeave(const Sequence& sequence, const Asker& asker, int64_t room) const;
  bool MayStepAside(int32_t index, const Asker& asker, int64_t room) const;
  bool MayGiveRow(const Sequence& sequence, const Asker& asker, int64_t room) const;
  bool GivesToOthers(const Tenant& tenant) const;

  const SequenceTable& sequences_;
  const TenantList& tenants_;
  const BlockManager& block_manager_;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_VICTIMS_H_
