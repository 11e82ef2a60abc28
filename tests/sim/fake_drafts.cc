// The part of FakeExecutor that is about drafts, and who guesses them. A draft that turns out right is a row of its own, in the order of the
// text; of one that does not nothing may be left. Until it is known its slot holds nobody's token.
#include "tests/sim/fake_drafts.h"

#include <algorithm>

#include "tests/sim/fake_executor.h"

namespace hydrant::sim {

// What is sampled behind each draft: what the oracle says as long as all before it is right, then anything.
bool FakeExecutor::RunDrafts(const StepRow& row, SimRequest& request, RowOutput& output) {
  if (row.choose_victim != row.reuse_victim || row.shrink_to > 0 || !row.copies.empty()) {
    return failure_.Set("step ", step_, ": request ", request.id(), " is cut in a row with drafts");
  }
  const auto index = static_cast<size_t>(request.computed - 1 - request.prompt_length());
  PairSums sums = request.sums;
  bool right = true;
  for (int32_t i = 1; i <= row.drafts(); ++i) {
    const int32_t position = row.position + i, token = row.tokens[static_cast<size_t>(i)], slot = row.live + i;
    if (token < 0 || token >= options_.vocab) {
      return failure_.Set("step ", step_, ": request ", request.id(), " is to compute token ", token);
    }
    const bool known = index + static_cast<size_t>(i) < request.solo.decodes.size();
    right = right && known && token == request.solo.text[static_cast<size_t>(position)];
    // At the budget it reads what the oracle keeps until then: in whose place it stands meanwhile is nobody's business.
    if (row.reuse_victim && known) sums = request.solo.decodes[index + static_cast<size_t>(i)].sums;
    const FakeMemory::Cell guess = {~uint64_t{0}, position, token};
    if (!row.reuse_victim && !CheckWrites(row, request, slot)) return false;
    for (int32_t layer_head = 0; layer_head < options_.layer_heads; ++layer_head) {
      sums[static_cast<size_t>(layer_head)] += Share(position, token);
      if (row.reuse_victim) continue;
      memory_.Write(layer_head, row.block_table[static_cast<size_t>(slot / kBlockSlots)], slot % kBlockSlots, guess,
                    ShareOf(guess));
    }
    SampleResult& sampled = output.drafts.emplace_back();
    const uint64_t read = ReadAll(sums, options_.layer_heads) + (right ? 0 : 1);
    sampled.id = NextToken(request.id(), position + 1, read, options_.vocab);
    sampled.logprob = FakeLogprob(request.id(), position + 1);
    if (position + 1 - request.prompt_length() == request.fate.fail_generated) sampled.finite = false;
  }
  return true;
}

void FakeExecutor::KeepDrafts(std::span<const int32_t> kept) {
  if (drafted_ == nullptr || kept.size() != drafted_->rows.size() || !flights_.empty()) {
    failure_.Set("step ", step_, ": ", kept.size(), " rows are told what is kept");
    return;
  }
  for (size_t i = 0; i < kept.size() && !failure_.any(); ++i) {
    const StepRow& row = drafted_->rows[i];
    if (row.drafts() > 0) KeepOf(row, kept[i]);
  }
  drafted_ = nullptr;
}

void FakeExecutor::KeepOf(const StepRow& row, int32_t kept) {
  SimRequest& request = *requests_[row.sampling->key - 1];
  if (kept < 1 || kept > 1 + row.drafts()) {
    failure_.Set("step ", step_, ": request ", request.id(), " keeps ", kept, " of ", 1 + row.drafts(), " tokens");
    return;
  }
  for (int32_t slot = row.live + 1; !row.reuse_victim && slot <= row.live + row.drafts(); ++slot) {
    for (int32_t layer_head = 0; layer_head < options_.layer_heads; ++layer_head) {
      memory_.Erase(layer_head, row.block_table[static_cast<size_t>(slot / kBlockSlots)], slot % kBlockSlots);
    }
  }
  ++draft_rows_;
  drafts_kept_ += static_cast<uint64_t>(kept - 1);
  drafts_over_ += static_cast<uint64_t>(row.reuse_victim ? kept - 1 : 0);
  for (int32_t i = 1; i < kept; ++i) {
    StepRow alone = row;
    alone.tokens = row.tokens.subspan(static_cast<size_t>(i), 1);
    alone.position = row.position + i;
    alone.live = row.live + (row.reuse_victim ? 0 : i);
    const bool right = alone.position < std::ssize(request.solo.text) &&
                       alone.tokens[0] == request.solo.text[static_cast<size_t>(alone.position)];
    if (!right) {
      failure_.Set("step ", step_, ": request ", request.id(), " keeps token ", alone.tokens[0], " at ", alone.position,
                   ", which nobody sampled");
      return;
    }
    uint64_t read = 0;
    int32_t live_in = 0;
    if (options_.check_contract && !CheckDecode(alone, request, &live_in)) return;
    if (!RunDecode(alone, request, &read)) return;
    ++request.computed;
    SetLive(request, row.live + (row.reuse_victim ? 0 : i + 1));
  }
  // One slot in each pair is remembered as written last, and these are several.
  if (row.reuse_victim) std::ranges::fill(request.seen, SimRequest::Versions());
  request.seen.back() = {};
  if (request.seen.size() > 1) request.seen[request.seen.size() - 2] = {};
  while (request.blocks.size() > static_cast<size_t>(BlocksForSlots(request.live))) {
    memory_.Drop(request.blocks.back());
    request.blocks.pop_back();
    request.seen.pop_back();
  }
}

std::span<const int32_t> SimDrafter::Propose(int32_t most, int32_t) {
  proposal_.clear();
  const int32_t count = guesses_ == Guesses::kFew ? random_.Below(most + 1) : most;
  for (int32_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(request_.computed + 1 + i);
    const std::vector<int32_t>& text = request_.solo.text;
    const bool is_last = i + 1 == count;
    int32_t token = at < text.size() ? text[at] : random_.Below(vocab_);
    if (guesses_ == Guesses::kNever || (guesses_ == Guesses::kOften && random_.Chance(25)) ||
        (guesses_ == Guesses::kButTheLast && is_last)) {
      token = (token + 1) % vocab_;
    }
    if (guesses_ == Guesses::kAnything) token = random_.Between(-1, vocab_);
    proposal_.push_back(token);
  }
  return proposal_;
}

}  // namespace hydrant::sim
