#include "tests/sim/fake_executor.h"

#include <algorithm>
#include <cassert>

#include "block_manager/kv_budget.h"

namespace hydrant::sim {
FakeExecutor::FakeExecutor(const Options& options, std::vector<std::unique_ptr<SimRequest>>& requests, Failure& failure)
    : options_(options),
      requests_(requests),
      failure_(failure),
      memory_(options.blocks, options.spare_score_blocks, options.layer_heads),
      victims_(static_cast<size_t>(options.state_rows) * static_cast<size_t>(options.layer_heads), -1),
      sampled_(static_cast<size_t>(options.state_rows), 0),
      row_user_(static_cast<size_t>(options.state_rows), 0),
      due_of_(kTenantsMax, 0) {}

Executor::Ticket FakeExecutor::Launch(const StepInput& input) {
  if (flights_.size() == (options_.overlap ? 2 : 1))
    failure_.Set("a step was launched before the last one was awaited");
  step_ = ++launches_;
  if (input.rows.empty()) {
    if (input.parks.empty() && input.drops.empty() && input.restores.empty() && input.swap_drops.empty() &&
        input.swap_outs.empty() && input.swap_ins.empty()) {
      failure_.Set("a step with nothing to do was launched");
    }
    if (!flights_.empty()) failure_.Set("sessions are moved while a step is in flight");
  } else {
    ++row_steps_;
    if (options_.check_contract) CheckWhoDecodes(input);
  }
  for (const ParkOp& park : input.parks) moved_ += park.slice.size();
  if (!input.swap_outs.empty() && before_swaps) before_swaps();
  for (const SwapOutOp& out : input.swap_outs) moved_ += out.slice.size();
  for (const SwapInOp& in : input.swap_ins) moved_ += in.slice.size();
  for (const RestoreOp& restore : input.restores) {
    moved_ += restore.slice.size();
    SeeRestore(restore);
  }
  if (drafted_ != nullptr) failure_.Set("a step was launched before it was said which drafts are kept");
  if (!flights_.empty() && !flights_.back().sampled)
    failure_.Set("a step was launched before the last one was sampled");
  steps_ahead_ += flights_.empty() ? 0 : 1;
  flights_.push_back({&input, step_, row_steps_, input.rows.empty()});
  return {step_};
}

void FakeExecutor::Sample(Ticket ticket, std::span<const LogitAdjustments* const> adjustments) {
  if (flights_.empty() || ticket.number != flights_.back().step || flights_.back().sampled ||
      adjustments.size() != flights_.back().input->rows.size()) {
    failure_.Set("ticket ", ticket.number, " sampled at step ", step_);
    return;
  }
  flights_.back().sampled = true;
}

bool FakeExecutor::OnItsWay(const SimRequest& request) const {
  for (const InFlightStep& flight : flights_) {
    for (const StepRow& row : flight.input->rows) {
      if (row.sampling->key == request.id()) return true;
    }
  }
  return false;
}

int32_t FakeExecutor::held_blocks() const {
  int64_t held = memory_.held_blocks();
  for (const InFlightStep& flight : flights_) {
    for (const StepRow& row : flight.input->rows) held += std::ssize(row.block_table) - BlocksForSlots(row.live);
  }
  return static_cast<int32_t>(held);
}

// Who has a row in a step that is launched after another, or in its place: whoever has not ended as far as anybody can know.
std::vector<int32_t> FakeExecutor::DueWithOneOnItsWay() const {
  std::vector<int32_t> due(kTenantsMax, 0);
  for (const std::unique_ptr<SimRequest>& each : requests_) {
    const SimRequest& request = *each;
    if (request.gone || !request.started || request.cancelled || request.paused || !request.decodes()) continue;
    if (options_.swaps && waits_for_blocks(request)) continue;
    if (request.computed >= request.solo.computed()) continue;  // its last token is known
    const int32_t computed = request.computed + (OnItsWay(request) ? 1 : 0);
    if (computed - request.prompt_length() + 1 >= request.request.request.max_tokens) continue;
    ++due[static_cast<size_t>(request.request.request.tenant)];
  }
  return due;
}

// Admitted sequences advance, whoever else is there and however slowly others are read. In a step that is divided between
// tenants each of them has a row at least; RunRow checks that a tenant's sequences take turns.
void FakeExecutor::CheckWhoDecodes(const StepInput& input) {
  const std::vector<int32_t> due = options_.overlap || options_.swaps ? DueWithOneOnItsWay() : due_of_;
  std::vector<int32_t> left_out = due;
  for (const StepRow& row : input.rows) {
    const uint64_t id = row.sampling->key;
    if (!row.prefill && id > 0 && id <= requests_.size()) --left_out[TenantOf(*requests_[id - 1])];
  }
  for (size_t tenant = 0; tenant < left_out.size(); ++tenant) {
    if (left_out[tenant] == 0) continue;
    rows_left_out_ += static_cast<uint64_t>(std::max(0, left_out[tenant]));
    if (shares_steps && 0 < left_out[tenant] && left_out[tenant] < due[tenant]) continue;
    failure_.Set("step ", step_, " leaves out ", left_out[tenant], " of the ", due[tenant], " sequences of tenant ",
                 tenant);
  }
}

size_t FakeExecutor::TenantOf(const SimRequest& request) {
  const auto tenant = static_cast<size_t>(request.request.request.tenant);
  assert(tenant < due_of_.size());
  return tenant;
}

StepOutput FakeExecutor::Await(Ticket ticket) {
  StepOutput output;
  if (flights_.empty() || ticket.number != flights_.front().step) {
    failure_.Set("ticket ", ticket.number, " awaited at step ", step_);
    return output;
  }
  const InFlightStep flight = flights_.front();
  if (!flight.sampled) failure_.Set("ticket ", ticket.number, " awaited before it was sampled");
  const StepInput& input = *flight.input;
  step_ = flight.step;
  row_step_ = flight.row_step;
  if (!input.rows.empty() || !input.restores.empty() || !input.swap_ins.empty()) {
    if (in_flight) in_flight();
    if (step_fails && step_fails()) FailRows(input.rows);
  }
  flights_.erase(flights_.begin());
  for (const TurnId& turn : input.drops) {
    parked_.erase(turn);
    EndPark(turn);
  }
  for (uint64_t id : input.swap_drops) swapped_.erase(id);
  for (const ParkOp& park : input.parks) Park(park);
  for (const SwapOutOp& out : input.swap_outs) SwapOutOf(out, &output);
  for (const RestoreOp& restore : input.restores) Restore(restore);
  for (const SwapInOp& in : input.swap_ins) SwapInOf(in);
  for (const ScoreInit& init : input.score_inits) memory_.InitScore(init.from, init.to, init.position);
  output.rows.resize(input.rows.size());
  for (size_t i = 0; i < input.rows.size(); ++i) {
    const StepRow& row = input.rows[i];
    output.rows[i].targets.resize(row.targets.size());
    output.rows[i].losses.resize(static_cast<size_t>(row.losses.cuts));
    if (row.drafts() > 0) drafted_ = &input;
    if (!failure_.any()) RunRow(row, output.rows[i]);
    if (!row.sample || row.state_row < 0 || row.state_row >= options_.state_rows) continue;
    const SampleResult& sampled = output.rows[i].sampled;
    const bool valid = sampled.finite && sampled.id >= 0 && sampled.id < options_.vocab;
    const bool stops = std::find(row.stop_ids.begin(), row.stop_ids.end(), sampled.id) != row.stop_ids.end();
    sampled_[static_cast<size_t>(row.state_row)] = !valid ? 0 : stops ? kNoNextId : sampled.id;
  }
  return output;
}

// The token that a row computes.
int32_t FakeExecutor::TokenOf(const StepRow& row) const {
  return row.tokens[0] == kSampledId ? sampled_[static_cast<size_t>(row.state_row)] : row.tokens[0];
}

// What the device computed in this step is not numbers.
void FakeExecutor::FailRows(std::span<const StepRow> rows) {
  for (const StepRow& row : rows) {
    const uint64_t id = row.sampling->key;
    if (!row.sample || id == 0 || id > requests_.size() || !requests_[id - 1]->started) continue;
    SimRequest& request = *requests_[id - 1];
    if (request.computed >= request.solo.computed()) continue;  // it has ended
    const int32_t tokens = static_cast<int32_t>(row.tokens.size()) - row.drafts();
    request.fate.fail_generated = request.computed + tokens - request.prompt_length();
    on_change(request);
  }
}

SimRequest* FakeExecutor::RequestOf(const StepRow& row) {
  const uint64_t id = row.sampling->key;
  if (id == 0 || id > requests_.size() || row.state_row < 0 || row.state_row >= options_.state_rows) {
    failure_.Set("a row of request ", id, " in state row ", row.state_row);
    return nullptr;
  }
  SimRequest& request = *requests_[id - 1];
  if (request.gone || !request.started) {
    failure_.Set("request ", id, " was scheduled ",
                 request.gone ? "after its blocks were freed" : "before it was admitted");
    return nullptr;
  }
  uint64_t& last_used = row_user_[static_cast<size_t>(row.state_row)];
  if (options_.check_contract) {
    if (last_used == step_) failure_.Set("two rows share state row ", row.state_row);
    if (request.state_row >= 0 && request.state_row != row.state_row) {
      failure_.Set("request ", id, " moved from state row ", request.state_row, " to ", row.state_row);
    }
  }
  last_used = step_;
  request.state_row = row.state_row;
  if (request.request.request.session != 0) user(request.request.request.session) = &request;
  return failure_.any() ? nullptr : &request;
}

// A row whose policy keeps fewer tokens than the one before lowers the budget. Whatever it is told, the oracle follows where the
// request agreed.
bool FakeExecutor::SeeShrinking(const StepRow& row, SimRequest& request) {
  const int32_t keep = row.policy->keep(), before = request.policy.keep();
  if (row.prefill || !row.policy->evicts || keep == before) return true;
  const KvBudget& asked = request.request.request.budget;
  if (keep > before || keep < asked.floor) {
    return failure_.Set("step ", step_, ": the budget of request ", request.id(), " goes from ", before, " to ", keep,
                        ", its floor is ", asked.floor);
  }
  request.shrinkings.push_back({request.computed - request.prompt_length(), keep});
  request.policy = PolicyWith(keep, request.request.policy);
  ++shrinkings_;
  on_change(request);
  return true;
}

void FakeExecutor::TakeOver(SimRequest& request, int32_t cached, std::span<const int32_t> blocks) {
  const PrefixUse& use = request.request.request.prefix;
  if (!use.looks_up || request.computed != 0 || cached % kBlockSlots != 0 ||
      cached > request.prompt_length() - use.rows_computed_min || std::ssize(blocks) < cached / kBlockSlots ||
      (request.solo.first_pruned >= 0 && cached >= request.solo.first_pruned)) {
    failure_.Set("step ", step_, ": request ", request.id(), " takes over ", cached, " tokens");
    return;
  }
  for (int32_t block : blocks.first(static_cast<size_t>(cached / kBlockSlots))) {
    if (memory_.block(block).generated && !use.takes_generated) {
      failure_.Set("step ", step_, ": request ", request.id(), " takes over what was decoded");
      return;
    }
    generated_taken_ += memory_.block(block).generated ? 1 : 0;
    memory_.Hold(block);
    request.blocks.push_back(block);
    request.seen.emplace_back();
  }
  request.computed = request.cached = cached;
  SetLive(request, cached);
  cached_tokens_ += static_cast<uint64_t>(cached);
}

bool FakeExecutor::ClaimBlocks(const StepRow& row, SimRequest& request, int32_t live_in) {
  const size_t needed = static_cast<size_t>(BlocksForSlots(live_in));
  if (row.live < 0 || row.block_table.size() < needed || row.score_table.size() != row.block_table.size()) {
    return failure_.Set("request ", request.id(), ": ", row.block_table.size(), " blocks for ", live_in, " slots");
  }
  const size_t owned = static_cast<size_t>(BlocksForSlots(row.live));
  for (size_t i = 0; i < needed; ++i) {
    const int32_t block = row.block_table[i], score_block = row.score_table[i];
    if (!memory_.has_score_block(score_block)) {
      return failure_.Set("score block ", score_block, " does not exist");
    }
    if (i < owned) {
      if (i >= request.blocks.size() || request.blocks[i] != block) {
        return failure_.Set("step ", step_, ": request ", request.id(), " reads block ", block, " at place ", i);
      }
    } else {
      if (!Append(block, request)) return false;
    }
  }
  return true;
}

// The block is the request's from now on, with nothing in it.
bool FakeExecutor::Claim(int32_t block, const SimRequest& request) {
  if (!memory_.has_block(block)) return failure_.Set("block ", block, " does not exist");
  if (memory_.block(block).holders != 0) {
    return failure_.Set("step ", step_, ": request ", request.id(), " takes block ", block, ", which somebody holds");
  }
  memory_.Hold(block);
  memory_.Clear(block);
  return true;
}

bool FakeExecutor::Append(int32_t block, SimRequest& request) {
  if (!Claim(block, request)) return false;
  request.blocks.push_back(block);
  request.seen.emplace_back();
  return true;
}

void FakeExecutor::SetLive(SimRequest& request, int32_t live) {
  live_slots_ += live - request.live;
  request.live = live;
}

void FakeExecutor::Forget(SimRequest& request) {
  SetPaused(request, false);
  for (int32_t block : request.blocks) memory_.Drop(block);
  request.blocks.clear();
  request.seen.clear();
  SetLive(request, 0);
  if (request.state_row >= 0 && request.decodes()) --due_of_[TenantOf(request)];
  request.state_row = -1;
  request.gone = true;
}

// A reader can only be behind with tokens, so the prompt of whoever is paused is computed.
void FakeExecutor::SetPaused(SimRequest& request, bool paused) {
  if (request.gone || request.paused == paused) return;
  request.paused = paused;
  due_of_[TenantOf(request)] -= paused ? 1 : -1;
  request.row_step = row_steps_;
}

void FakeExecutor::RunRow(const StepRow& row, RowOutput& output) {
  SimRequest* request = RequestOf(row);
  if (request == nullptr) return;
  if (!SeeShrinking(row, *request)) return;
  const SoloRun& solo = request->solo;
  const bool fed = row.tokens[0] == kSampledId;
  if (fed && request->computed >= solo.computed() && solo.finish != FinishReason::kLength) {
    RunBehindEnd(row, *request);
    return;
  }
  if (fed && TokenOf(row) == kNoNextId) {
    failure_.Set("step ", step_, ": the device was told that request ", request->id(), " ends, and it goes on");
    return;
  }
  if (options_.check_contract && !CheckContract(row, *request)) return;
  const int32_t tokens = static_cast<int32_t>(row.tokens.size()) - row.drafts();
  const int32_t live_in = row.reuse_victim ? row.live : row.live + tokens + row.drafts();
  if (const int32_t end = row.policy->rolling ? live_in : row.position + tokens + row.drafts();
      end > options_.context) {
    failure_.Set("step ", step_, ": a key of request ", request->id(), " stands at ", end - 1, ", the context has ",
                 options_.context);
    return;
  }
  if (!CheckOrder(row, *request) || !ClaimBlocks(row, *request, live_in) || !CheckSlots(row, *request)) return;
  uint64_t read = 0;
  if (!(row.prefill ? RunPrefill(row, *request, &read) : RunDecode(row, *request, &read))) return;
  const bool decoded_before = request->decodes();
  // Everybody else of its tenant was before it at most once.
  const uint64_t steps = row_step_ - std::min(row_step_, request->row_step);
  if (options_.check_contract && !options_.swaps && decoded_before &&
      steps > static_cast<uint64_t>(options_.state_rows)) {
    failure_.Set("request ", request->id(), " had no row for ", steps, " steps");
    return;
  }
  request->row_step = row_step_;
  request->computed += tokens;
  if (!decoded_before && request->decodes()) ++due_of_[TenantOf(*request)];
  SetLive(*request, row.reuse_victim ? live_in : live_in - row.drafts());
  if (row.drafts() > 0 && !RunDrafts(row, *request, output)) return;
  if (!CopyBlocks(row, *request)) return;
  if (row.shrink_to > 0 && !Shrink(row, *request, live_in)) return;
  Report(row, *request, read, output);
}

// Nobody wants what the row finds out, and it counts only for who was cancelled before. Where the device was not told of the end
// it writes all the same.
void FakeExecutor::RunBehindEnd(const StepRow& row, SimRequest& request) {
  ++rows_behind_;
  const int32_t live_in = row.reuse_victim ? row.live : row.live + 1;
  if (!ClaimBlocks(row, request, live_in)) return;
  if (request.cancelled) {
    ++request.computed;
    SetLive(request, live_in);
  }
  if (TokenOf(row) == kNoNextId) {
    ++ends_known_;
    return;
  }
  const bool is_parked = request.request.request.parks_at_end() && EndsByItself(request.solo.finish);
  if (is_parked && request.policy.evicts && !request.cancelled) {
    failure_.Set("step ", step_, ": a row behind the end of request ", request.id(), " spoils its session's scores");
  }
  if (row.reuse_victim || !CheckWrites(row, request, row.live)) return;
  const size_t place = static_cast<size_t>(row.live / kBlockSlots);
  const FakeMemory::Cell nobodys = {~uint64_t{0}, row.position, TokenOf(row)};
  for (int32_t layer_head = 0; layer_head < options_.layer_heads; ++layer_head) {
    memory_.Write(layer_head, row.block_table[place], row.live % kBlockSlots, nobodys, ShareOf(nobodys));
  }
}

// The row at `position` adds to the scores of all `live` slots.
void FakeExecutor::AddRow(const StepRow& row, const SimRequest& request, int32_t live, int32_t position) {
  if (!row.policy->evicts) return;
  const uint64_t state = request.SumState(position);
  for (int32_t score_block : row.score_table.first(static_cast<size_t>(BlocksForSlots(live))))
    memory_.SetState(score_block, state);
}

bool FakeExecutor::RunPrefill(const StepRow& row, SimRequest& request, uint64_t* read) {
  const int32_t tokens = static_cast<int32_t>(row.tokens.size()), end = row.live + tokens;
  const PromptStop* cut = row.position > request.solo.begin ? &request.solo.StopAfter(row.position) : nullptr;
  if (cut != nullptr && cut->end != row.position) cut = nullptr;
  for (int32_t layer_head = 0; cut != nullptr && layer_head < options_.layer_heads; ++layer_head) {
    if (request.sums[static_cast<size_t>(layer_head)] != cut->sums[static_cast<size_t>(layer_head)]) {
      return failure_.Set("step ", step_, ": request ", request.id(), ", layer_head ", layer_head,
                          ": a cut inside the prompt keeps another set than the oracle's");
    }
  }
  uint64_t added = 0;
  for (int32_t i = 0; i < tokens;) {
    const int32_t slot = row.live + i, offset = slot % kBlockSlots;
    const int32_t count = std::min(kBlockSlots - offset, tokens - i);
    if (!CheckWrites(row, request, slot)) return false;
    std::array<FakeMemory::Cell, kBlockSlots> cells;
    for (int32_t j = 0; j < count; ++j) {
      const int32_t position = row.position + i + j;
      cells[static_cast<size_t>(j)] = {CellKey(request.keys[static_cast<size_t>(position)], row.policy->rolling),
                                       position, row.tokens[static_cast<size_t>(i + j)]};
    }
    const size_t place = static_cast<size_t>(slot / kBlockSlots);
    added += memory_.WriteAllPairs(row.block_table[place], row.score_table[place], offset,
                                   std::span(cells).first(static_cast<size_t>(count)),
                                   row.policy->rolling ? slot : row.position + i);
    if (place > 0 && memory_.block(row.block_table[place - 1]).generated) memory_.MarkGenerated(row.block_table[place]);
    i += count;
  }
  for (uint64_t& sum : request.sums) sum += added;
  if (row.sample) *read = ReadAll(request.sums, options_.layer_heads);
  if (!TakeSnapshots(row, request, end)) return false;
  AddRow(row, request, end, row.position + tokens - 1);
  if (row.segment_starts.empty()) return true;
  const uint64_t state =
      request.PinState(row.segment_starts, std::max(request.prompt_length() - row.policy->pin_rows, row.position));
  for (int32_t score_block : row.score_table.first(static_cast<size_t>(BlocksForSlots(end))))
    memory_.SetState(score_block, state);
  return true;
}

// Scores as they are on the way through the row's tokens.
bool FakeExecutor::TakeSnapshots(const StepRow& row, SimRequest& request, int32_t end) {
  for (const ScoreSnapshot& snapshot : row.snapshots) {
    if (snapshot.slots <= row.live || snapshot.slots > end || snapshot.slots % kBlockSlots != 0 ||
        snapshot.score_blocks.size() != static_cast<size_t>(snapshot.slots / kBlockSlots)) {
      return failure_.Set("step ", step_, ": a snapshot at ", snapshot.slots, " of a chunk to ", end);
    }
    request.has_history |= snapshot.slots == request.request.request.history;
    AddRow(row, request, snapshot.slots, snapshot.slots - 1);
    for (size_t i = 0; i < snapshot.score_blocks.size(); ++i) {
      memory_.PutScoreBlock(memory_.score_block(row.score_table[i]), snapshot.score_blocks[i]);
    }
  }
  return true;
}

bool FakeExecutor::RunDecode(const StepRow& row, SimRequest& request, uint64_t* read) {
  const size_t index = static_cast<size_t>(request.computed - request.prompt_length());
  if (request.computed < request.prompt_length() || index >= request.solo.decodes.size()) {
    return failure_.Set("request ", request.id(), " decodes at ", request.computed);
  }
  const DecodeFacts& facts = request.solo.decodes[index];
  const bool rolls = row.policy->rolling;
  const int32_t stands_at = !rolls ? row.position : row.reuse_victim ? row.live - 1 : row.live;
  const FakeMemory::Cell cell = {CellKey(request.keys[static_cast<size_t>(row.position)], rolls), row.position,
                                 TokenOf(row)};
  const uint64_t share = ShareOf(cell);
  for (int32_t layer_head = 0; layer_head < options_.layer_heads; ++layer_head) {
    int32_t& victim = victims_[static_cast<size_t>(row.state_row * options_.layer_heads + layer_head)];
    const int32_t slot = row.reuse_victim ? victim : row.live;
    if (slot < 0 || slot > row.live || (row.reuse_victim && slot == row.live)) {
      return failure_.Set("step ", step_, ": request ", request.id(), " writes slot ", slot, " of ", row.live);
    }
    if (!CheckWrites(row, request, slot)) return false;
    if (rolls && row.reuse_victim && !CloseGap(row, request, layer_head, slot)) return false;
    const size_t place = static_cast<size_t>(slot / kBlockSlots);
    const int32_t block = row.block_table[place], score_block = row.score_table[place], offset = slot % kBlockSlots;
    uint64_t& sum = request.sums[static_cast<size_t>(layer_head)];
    sum -= memory_.Write(layer_head, block, offset, cell, share);
    memory_.MarkGenerated(block);
    // What may still be read must be what the oracle kept: every cell is of this text, and their sum is the set's.
    if (sum != facts.sums[static_cast<size_t>(layer_head)]) {
      return failure_.Set("step ", step_, ": request ", request.id(), ", layer_head ", layer_head,
                          ": the kept set is not the oracle's");
    }
    sum += share;
    memory_.WritePosition(layer_head, score_block, offset, stands_at);
    request.seen[place] = {memory_.block(block).version, memory_.score_block(score_block).version};
    request.unseen_slot[static_cast<size_t>(layer_head)] = slot;
    victim = row.choose_victim ? ChooseVictim(row, request, layer_head, slot) : -1;
  }
  *read = ReadAll(request.sums, options_.layer_heads);
  AddRow(row, request, row.reuse_victim ? row.live : row.live + 1, row.position);
  return true;
}

// One token goes, and every newer one of its pair stands a place lower.
bool FakeExecutor::CloseGap(const StepRow& row, const SimRequest& request, int32_t layer_head, int32_t victim) {
  const int32_t gap = PositionAt(row.score_table, layer_head, victim);
  for (int32_t slot = 0; slot < row.live; ++slot) {
    const int32_t stands_at = PositionAt(row.score_table, layer_head, slot);
    if (stands_at <= gap) continue;
    if (!CheckWrites(row, request, slot)) return false;
    memory_.WritePosition(layer_head, row.score_table[static_cast<size_t>(slot / kBlockSlots)], slot % kBlockSlots,
                          stands_at - 1);
  }
  return true;
}

// The slot to overwrite next; `written` has the newest token, which is no candidate.
int32_t FakeExecutor::ChooseVictim(const StepRow& row, SimRequest& request, int32_t layer_head, int32_t written) const {
  const bool rolls = row.policy->rolling;
  const int32_t newest = PositionAt(row.score_table, layer_head, written);
  const int32_t candidates_end = newest + 1 - row.policy->recent;
  const std::vector<uint64_t>& ranks = request.ranks.Before(layer_head, row.position);
  int32_t victim = -1;
  uint64_t lowest = ~uint64_t{0};
  for (int32_t slot = 0; slot < row.live; ++slot) {
    const int32_t position = CellAt(row.block_table, layer_head, slot).position;
    const int32_t stands_at = rolls ? PositionAt(row.score_table, layer_head, slot) : position;
    if (slot == written || stands_at >= candidates_end || ranks[static_cast<size_t>(position)] >= lowest) continue;
    victim = slot;
    lowest = ranks[static_cast<size_t>(position)];
  }
  return victim;
}

// After the copies the request holds their targets in the place of what they were made from.
bool FakeExecutor::CopyBlocks(const StepRow& row, SimRequest& request) {
  if (row.copies.empty() && row.shrink_to == 0) return true;
  table_.assign(row.block_table.begin(), row.block_table.end());
  score_table_.assign(row.score_table.begin(), row.score_table.end());
  for (size_t i = 0; i < row.copies.size(); ++i) {
    const BlockCopy& copy = row.copies[i];
    if (i >= table_.size() || copy.from != table_[i] || copy.from_score_block != score_table_[i]) {
      return failure_.Set("step ", step_, ": request ", request.id(), " copies block ", copy.from, " at place ", i);
    }
    if (!Claim(copy.to, request)) return false;
    memory_.PutBlock(memory_.block(copy.from), copy.to);
    memory_.PutScoreBlock(memory_.score_block(copy.from_score_block), copy.to);
    table_[i] = score_table_[i] = copy.to;
    request.blocks[i] = copy.to;
    memory_.Drop(copy.from);
    ++copied_blocks_;
  }
  return true;
}

bool FakeExecutor::Shrink(const StepRow& row, SimRequest& request, int32_t live_from) {
  if (!Cut(request, *row.policy, request.computed, live_from, row.shrink_to)) return false;
  for (int32_t layer_head = 0; layer_head < options_.layer_heads; ++layer_head) {
    victims_[static_cast<size_t>(row.state_row * options_.layer_heads + layer_head)] = -1;
  }
  while (request.blocks.size() > static_cast<size_t>(BlocksForSlots(row.shrink_to))) {
    memory_.Drop(request.blocks.back());
    request.blocks.pop_back();
    request.seen.pop_back();
  }
  SetLive(request, row.shrink_to);
  return true;
}

void FakeExecutor::Report(const StepRow& row, const SimRequest& request, uint64_t read, RowOutput& output) const {
  for (size_t i = 0; i < row.targets.size(); ++i) {
    SampleResult& target = output.targets[i];
    const int32_t position = row.position + 1 + static_cast<int32_t>(i);
    target.id = row.targets[i];
    target.logprob = FakeLogprob(request.id(), position);
    target.finite = position != request.fate.fail_prompt;
  }
  // The more is dropped the more is lost, and everybody's differently.
  const double per_cut = static_cast<double>(Mix(request.id()) % 97 + 1) / 100.0 / std::max(1, row.losses.cuts);
  for (size_t i = 0; i < output.losses.size(); ++i) {
    output.losses[i] = static_cast<float>(per_cut * static_cast<double>(i + 1));
  }
  if (!row.sample) return;
  output.sampled.id = NextToken(request.id(), request.computed, read, options_.vocab);
  output.sampled.logprob = FakeLogprob(request.id(), request.computed);
  if (request.computed - request.prompt_length() != request.fate.fail_generated) return;
  if (request.fate.fail_by_id) {
    output.sampled.id = request.computed % 2 == 0 ? -1 : options_.vocab;
  } else {
    output.sampled.finite = false;
  }
}

}  // namespace hydrant::sim
