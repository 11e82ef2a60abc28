// Whatever is sent as a session's state: it is refused, or it is a session that is written again as it was read.
#include <optional>
#include <string>
#include <string_view>

#include "server/sessions/past_check.h"
#include "server/sessions/past_codec.h"
#include "server/sessions/transfer/session_file.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace {

constexpr KvModelFacts kFacts = {.query_heads = 4, .kv_heads = 2, .budget_max = 4096};
constexpr int32_t kVocab = 50'000;

void CheckPastOf(const SessionFile& file) {
  const std::optional<SessionPast> past = DecodePast({&file.past, 1}, file.model);
  if (!past.has_value()) return;
  const std::string again = EncodePast(*past, nullptr, file.model);
  const std::optional<SessionPast> same = DecodePast({&again, 1}, file.model);
  Require(same.has_value() && same->tokens == past->tokens && same->text == past->text,
          "a past can be read as it was written");
  if (CheckPast(*past, kVocab, kFacts).has_value()) return;
  for (const int32_t id : past->tokens) Require(id >= 0 && id < kVocab, "every token is in the vocabulary");
  Require(past->kv.budget.keep <= kFacts.budget_max && past->kv.budget.valid(), "a budget fits the context");
  Require(past->kv.policy.heavy >= 0 && past->kv.policy.keep() <= kFacts.budget_max, "and so does a policy");
}

}  // namespace

void Fuzz(std::string_view input) {
  const absl::StatusOr<SessionFile> read = ReadSessionFile(input);
  if (read.ok()) {
    const absl::StatusOr<SessionFile> again = ReadSessionFile(WriteSessionFile(*read));
    Require(again.ok() && again->past == read->past && again->turn == read->turn,
            "a file can be read as it was written");
    CheckPastOf(*read);
  }
  // What no fuzzer would find: the checksums around what it makes up.
  SessionFile made;
  made.past = input;
  made.turn = 1;
  made.model = ModelOfPast(input).value_or(ModelId{});
  const absl::StatusOr<SessionFile> found = ReadSessionFile(WriteSessionFile(made));
  Require(found.ok() && found->past == input, "any past travels");
  CheckPastOf(*found);
}

}  // namespace hydrant
