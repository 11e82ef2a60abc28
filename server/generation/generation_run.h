// GenerationRun is one request between submission and its last byte: a ChoiceAssembler per sequence, what to report about
// each, and the bodies and chunks that the endpoint's AnswerWriter makes of them. It does no I/O.
//
// Thread: the connection's strand.
#ifndef HYDRANT_SERVER_GENERATION_GENERATION_RUN_H_
#define HYDRANT_SERVER_GENERATION_GENERATION_RUN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/response/answer.h"
#include "api/wire/api_error.h"
#include "block_manager/prefix_index.h"
#include "server/audit/turn_audit.h"
#include "server/engine/engine_port.h"
#include "server/engine/sequence_request.h"
#include "server/engine/stream_mailbox.h"
#include "server/generation/choice_assembler.h"
#include "server/generation/generation_prepare.h"
#include "server/process/request_notes.h"
#include "server/sessions/session_store.h"
#include "server/sessions/turn_answer.h"
#include "server/tenants/tenant_account.h"

namespace hydrant {

class GenerationRun {
 public:
  // `context`, `engine` and `metrics` outlive the run. `id`: of the answer, without the endpoint's prefix. `tenant` is an
  // index.
  GenerationRun(PreparedGeneration prepared, const ServingContext& context, EnginePort& engine, Metrics& metrics,
                int64_t arrival_us, std::string id, int32_t tenant);
  // Cancels what has not ended, which takes no memory.
  ~GenerationRun();
  GenerationRun(const GenerationRun&) = delete;
  GenerationRun& operator=(const GenerationRun&) = delete;

  // What answers are to be held to, where the request has a constraint: before Submit.
  // What nobody asked for has no salt: a list of names alone, which all of a tenant's users send.
  ShapeCache::Key ShapeKey() const;
  // True if SetShape may wait for whoever makes masks of it: no work for an io thread.
  bool FollowsShape(const ShapeResult& shape) const;
  // Why that cannot be, if so: a 400. Any thread, while nothing else is called.
  std::optional<ApiError> SetShape(const ShapeResult& shape);

  // The tokens that each sequence may come to use, in the order of choices.
  std::vector<RequestAccount::Sequence> accounts() const;
  // False: the engine has no room. `wake` is called, on any thread, when there is something to absorb.
  bool Submit(std::function<void()> wake, std::shared_ptr<SequenceLedger> ledger);

  // The KV that it goes on from is in a file: Stage comes before Submit, and Submit once it is staged. Where the file turns out to be
  // none, the request is as one whose parked KV was lost meanwhile.
  bool on_disk() const {
    return turn_.has_value() && turn_->kv_file() != nullptr && prepared_.prompts.front().resumes != 0;
  }
  // It is one whose answer does not depend on that, and reading it, at the rate of the last files, would take longer than computing its
  // history at `prefill_rate` tokens a second.
  bool IsComputedFaster(double prefill_rate) const;
  // Has it read; `wake` is called, on any thread, when that is done.
  void Stage(std::function<void()> wake);
  // It is not waited for, or no longer: the request is as one whose file turned out to be none.
  void StopStaging(KvReject why);
  bool staged() const { return staging_ != nullptr && staging_->done.load(std::memory_order_acquire); }

  // Takes what the engine has sent so far. Where there is no memory for that, the session is free again, as it was.
  void Absorb();
  // Ends it with this error: what has not ended is cancelled, and its session is free again, as it was.
  void Fail(ApiError error);
  // Why the request as a whole has failed, if it has.
  const std::optional<ApiError>& error() const { return error_; }
  // Every sequence has ended.
  bool ended() const { return open_ == 0; }
  // And so has the session's turn, which may have to become durable first.
  bool done() const { return ended() && (commit_ == nullptr || commit_seen_); }

  // Events for what has become visible; after the last one, usage if it was asked for, and the end.
  void AppendEvents(std::string* out);
  // How a stream ends that fails. REQUIRES: error().
  void AppendError(std::string* out) { writer_->AppendError(out, *error_); }
  // REQUIRES: done(). Any thread, while nothing else is called.
  std::string Body();
  // True if Body takes a while: no work for an io thread.
  bool has_long_body() const { return prepared_.fields.pooling != Pooling::kNone; }

  // Nobody waits for more of it: what has come is counted, and the engine leaves the rest.
  void Cancel() noexcept;
  // It was refused: its session is free again.
  void LeaveTurn() { turn_.reset(); }

  const std::string& id() const { return head_.id; }
  // Without the endpoint's prefix.
  std::string bare_id() const { return head_.id.substr(writer_->id_prefix().size()); }
  uint64_t first_id() const { return first_id_; }
  int32_t sequences() const { return static_cast<int32_t>(choices_.size()); }
  const GenerationFields& fields() const { return prepared_.fields; }
  const std::vector<std::pair<std::string, std::string>>& response_fields() const { return prepared_.response_fields; }
  // For the log: what it was and how far it came.
  void Describe(RequestNotes* notes) const;

 private:
  struct Choice {
    std::unique_ptr<ChoiceAssembler> assembler;
    int32_t prompt = 0;            // index of its prompt
    bool ended_in_engine = false;  // its terminal event has come: nothing to cancel
    bool announced = false;        // its first chunk is out
    bool closed = false;           // its last chunk is out
    int64_t last_token_us = -1;
    std::unique_ptr<TurnAudit> audit;      // null: it is not in the sample
    std::shared_ptr<PooledStates> states;  // null: its prompt's are not asked for
  };

  // Whether answers can be closed at max_tokens.
  std::optional<ApiError> CheckClosing();
  void AbsorbBatch();
  int64_t generated_tokens() const;
  std::unique_ptr<TurnAudit> DrawAudit(const PreparedPrompt& prompt) const;
  SequenceRequest MakeSequence(size_t choice) const;
  void AddToken(Choice& choice, const TokenEvent& event);
  // Why there is no answer where a sequence of it has ended like this, if so.
  std::optional<ApiError> ErrorOfEnd(const Choice& choice, FinishReason finish) const;
  void Finish(int32_t index);
  void EndTurn(FinishReason finish);
  KvReport MakeKvReport() const;
  std::optional<TurnReport> MakeTurnReport() const;
  TurnNotes MakeNotes(const SessionPast& past) const;
  // Tokens of its prompt that sequence `index` found computed.
  int64_t CachedTokens(int32_t index) const;
  Usage MakeUsage() const;
  void AppendChunk(int32_t index, std::string* out);

  // The end of a turn on its way to the disk: what of it is durable, once that is known. Written once, by whichever thread it became
  // known on: released there, and acquired where it is read.
  struct Commit {
    std::atomic<bool> known = false;
    Durability durable = Durability::kNone;
  };
  // KV on its way from the disk, likewise.
  struct Staging {
    std::atomic<bool> done = false;
    KvBytes kv;
  };

  std::optional<SessionTurn> turn_;  // until it has ended
  const uint64_t turn_number_;       // 0: of no session
  const std::string session_id_;     // empty: none
  const std::unique_ptr<AnswerWriter> writer_;
  std::shared_ptr<const LoadedAdapter> adapter_;  // until Submit; null: none
  const std::string adapter_digest_;              // empty: none
  const PreparedGeneration prepared_;
  const ServingContext& context_;
  EnginePort& engine_;
  Metrics& metrics_;
  const int64_t arrival_us_;
  const int32_t tenant_;
  const PrefixSalt prefix_salt_;
  const AnswerHead head_;
  const std::shared_ptr<const StopStrings> stops_;  // with the engine, which looks for them too

  std::shared_ptr<CompiledShape> shape_;                // null: none, or not yet
  std::optional<grammar::GrammarState> behind_prefix_;  // where every answer begins, unless it is at the beginning
  std::vector<Choice> choices_;
  int32_t open_ = 0;      // choices without an end
  int32_t unclosed_ = 0;  // choices whose last chunk is not out
  int64_t prompt_tokens_ = 0;
  uint64_t first_id_ = 0;      // 0: not submitted
  std::list<IdRange> cancel_;  // all of it, for when it has to be cancelled
  std::shared_ptr<StreamMailbox> mailbox_;
  StreamBatch batch_;
  std::optional<ApiError> error_;
  std::optional<TurnAnswer> answer_;  // of a session's turn
  ChoiceAssembler::Output taken_;     // of the answer's text and reasoning, where a note is made of it
  std::function<void()> wake_;
  std::shared_ptr<Staging> staging_;  // null: nothing is to be read, or not yet
  std::shared_ptr<Commit> commit_;    // null: no turn has come to its end
  bool commit_seen_ = false;          // it is known
  bool lost_ = false;                 // some of what the engine said
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_GENERATION_RUN_H_
