#include "tests/sim/engine/sim_job.h"

#include <algorithm>

#include "tests/sim/fake_model.h"

namespace hydrant::sim {

int32_t ScriptedToken(uint64_t key, int32_t position) {
  return Scale(Mix(key * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(position)), kVocab);
}

void SimChoice::Run(int32_t max_tokens) {
  while (end == FinishReason::kNone) {
    text.push_back(ScriptedToken(key, prompt_length + static_cast<int32_t>(text.size())));
    if (text.back() == kEos) {
      end = FinishReason::kStop;
    } else if (std::ssize(text) == max_tokens) {
      end = FinishReason::kLength;
    }
  }
}

// What the engine says of a request's place in the queue and of its end: before its client can know of the end.
class SimJob::Ledger : public SequenceLedger {
 public:
  explicit Ledger(SimJob& job) : job_(job) {}

  void OnAdmitted(int32_t choice) override {
    if (job_.bug_ == EngineBug::kAdmissionUntold) return;
    SimChoice& own = job_.choices[static_cast<size_t>(choice)];
    if (!own.admitted) job_.on_admitted();
    own.admitted = true;
  }
  void OnEnded(int32_t choice, int32_t prompt_computed, int32_t generated) override {
    if (job_.bug_ == EngineBug::kEndUntold) return;
    Close(choice, prompt_computed, generated);
    if (job_.bug_ == EngineBug::kEndToldTwice) Close(choice, prompt_computed, generated);
  }

 private:
  void Close(int32_t choice, int32_t prompt_computed, int32_t generated) {
    SimChoice& own = job_.choices[static_cast<size_t>(choice)];
    if (own.ended || own.finish != FinishReason::kNone) {
      job_.failure_.Set("the account of sequence ", own.key, " is closed twice, or after its client saw the end");
    }
    if (generated < static_cast<int32_t>(own.seen) || generated > std::ssize(own.text) ||
        prompt_computed > own.prompt_length) {
      job_.failure_.Set("sequence ", own.key, " is charged for ", prompt_computed, " + ", generated, " tokens");
    }
    own.ended = true;
    job_.on_ended();
  }

  SimJob& job_;
};

SimJob::SimJob(EngineBug bug, int32_t count, int64_t unread_max, Failure& failure)
    : choices(static_cast<size_t>(count)), bug_(bug), unread_max_(unread_max), failure_(failure) {
  const int64_t bytes_max = unread_max == 0 ? 1 << 20 : unread_max * static_cast<int64_t>(sizeof(TokenEvent));
  mailbox = std::make_shared<StreamMailbox>(count, bytes_max, [this] { woken = mailbox != nullptr; });
  ledger = std::make_shared<Ledger>(*this);
  mailbox_seen = mailbox;
  ledger_seen = ledger;
}

bool SimJob::Read() {
  woken = false;
  const bool was_paused = mailbox->Take(&batch_);
  // A sequence is paused with the token that goes over the bound, and may have one more on its way; both once more
  // where the resume of the read before came after the pause.
  if (unread_max_ > 0 && std::ssize(batch_.tokens) > unread_max_ + 4 * std::ssize(choices)) {
    failure_.Set("request ", first_id, " goes on although its reader is ", batch_.tokens.size(), " tokens behind");
  }
  SpoilBatch(bug_, static_cast<int32_t>(choices.size()), batch_);
  for (const TokenEvent& event : batch_.tokens) See(event);
  engine_died = batch_.failed;
  if (batch_.lost) failure_.Set("request ", first_id, " has lost an event");
  return was_paused;
}

void SimJob::See(const TokenEvent& event) {
  SimChoice& choice = choices[static_cast<size_t>(event.choice)];
  if (choice.finish != FinishReason::kNone) {
    failure_.Set("sequence ", choice.key, ": an event after its end");
    return;
  }
  if (event.token >= 0) {
    if (choice.seen >= choice.text.size() || event.token != choice.text[choice.seen] || !choice.admitted) {
      failure_.Set("sequence ", choice.key, ": token ", choice.seen, " is ", event.token,
                   choice.admitted ? ", not what it says alone" : ", and its account has it in the queue");
      return;
    }
    ++choice.seen;
  }
  choice.finish = event.finish;
  if (event.finish != FinishReason::kNone) SeeEnd(choice);
}

void SimJob::SeeEnd(const SimChoice& choice) {
  const bool complete = choice.seen == choice.text.size();
  bool allowed = false;
  switch (choice.finish) {
    case FinishReason::kAbort:
      allowed = choice.cancelled;
      break;
    case FinishReason::kError:
      allowed = choice.failed;
      break;
    case FinishReason::kNoMemory:
      allowed = choice.lost;
      break;
    case FinishReason::kRefused:
      allowed = choice.too_long;
      break;
    default:
      allowed = choice.finish == choice.end && complete && !choice.too_long;
      break;
  }
  if (!allowed) {
    failure_.Set("sequence ", choice.key, " ends with ", static_cast<int>(choice.finish), " after ", choice.seen,
                 " tokens of ", choice.text.size());
  }
}

void SimJob::Release() {
  mailbox.reset();
  ledger.reset();
  woken = false;
}

bool SimJob::IsOver() const {
  return std::all_of(choices.begin(), choices.end(),
                     [](const SimChoice& choice) { return choice.finish != FinishReason::kNone; });
}

int32_t SimJob::open() const {
  return static_cast<int32_t>(
      std::count_if(choices.begin(), choices.end(), [](const SimChoice& choice) { return !choice.ended; }));
}

}  // namespace hydrant::sim
