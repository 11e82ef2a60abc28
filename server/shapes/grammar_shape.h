// GrammarShape holds the answer of one sequence to a CompiledShape, from where its thinking ends, if it thinks.
//
// Thread: AnswerShape's.
#ifndef HYDRANT_SERVER_SHAPES_GRAMMAR_SHAPE_H_
#define HYDRANT_SERVER_SHAPES_GRAMMAR_SHAPE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/grammar/grammar.h"
#include "server/engine/answer_shape.h"
#include "server/shapes/compiled_shape.h"

namespace hydrant {

// Where an answer stands before its first token.
struct ShapeStart {
  // Behind how it has begun already, if it has (CompiledShape::Behind).
  std::optional<grammar::GrammarState> behind = std::nullopt;
  bool thinks = false;          // the first token is thinking already
  int32_t thinks_behind = -1;   // a first token behind which thinking begins; -1: none does
  std::string thinking_closes;  // the text that ends it: "</think>"
  // The answer ends whole with this many tokens at most, thinking included; 0: however many. REQUIRES: the vocabulary spells
  // text, and BytesToEnd of the prefix is known and not more, that of `thinking_closes` added if it may think.
  int32_t tokens_max = 0;
  // Only calls are held to the shape, each from behind its mark: text is not masked, and nothing is any more where a limit is met, memory
  // is short, no token can be had, or the shape has no more calls.
  // REQUIRES: not tokens_max.
  bool calls_only = false;
  bool from_arguments = false;  // and each from inside its arguments: the marks may be prose
};

class GrammarShape : public AnswerShape {
 public:
  GrammarShape(std::shared_ptr<CompiledShape> shape, ShapeStart start);

  bool is_promised() const override { return !start_.calls_only; }
  Verdict Push(int32_t token) override;
  bool is_masked() const override { return !start_.calls_only || in_call_; }
  bool Mask(std::span<uint32_t> bits) override;

 private:
  enum class Phase : uint8_t {
    kMayThink,  // before the first token, or the first that is not white space where calls alone are held
    kThinks,
    kGap,  // thinking is over: a line may end before the answer begins
    kAnswers,
  };

  // What of the token belongs to the answer; nullopt: nothing.
  std::optional<std::string_view> AnswerIn(int32_t token);
  Verdict Follow(std::string_view bytes);
  void PushCalls(int32_t token);
  void FollowCalls(std::string_view bytes);
  void GiveUp();
  bool MaskAnswer(std::span<uint32_t> bits);
  // Whether no byte may come next. False also where `fuel` is not enough to know.
  bool IsOver(const grammar::GrammarState& state, grammar::Fuel& fuel);
  void AllowAll(std::span<uint32_t> bits) const;
  void AllowThoughts(std::span<uint32_t> bits);
  // Bytes with which the answer as a whole may end, from its prefix on.
  int64_t LeastAnswer();

  // An account of its own, so that many dear masks in a row hold up nobody: a second of them would be a second of every step. Of 20,000
  // masks of schemas in the wild one takes more than 400,000 units.
  static constexpr int64_t kFuelMax = 2'000'000;
  // The mask of a key beside others of its object may look at every node of the vocabulary's trie.
  static constexpr int64_t kFuelOfToken = 150'000;  // 3 ms

  const std::shared_ptr<CompiledShape> shape_;
  const ShapeStart start_;
  grammar::Fuel fuel_{kFuelMax};  // of both threads, one at a time
  // The engine's thread.
  std::optional<grammar::GrammarState> followed_;  // begins with the answer's first token
  // Written by Push, read by Mask.
  Phase phase_;
  std::string thought_;   // the last bytes of thinking, where its end may have begun
  std::string unmasked_;  // bytes that the state of masks has not seen
  int64_t pushed_ = 0;    // tokens
  // Used with start_.calls_only; written by either thread, handed over with the mask.
  bool in_call_ = false;   // where one is held
  bool given_up_ = false;  // nothing more is held
  // A worker's; where calls alone are held Push says where one begins.
  std::optional<grammar::GrammarState> masked_;
  std::optional<int64_t> least_answer_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SHAPES_GRAMMAR_SHAPE_H_
