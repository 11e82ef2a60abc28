// GrammarShape holds the answer of one sequence to a CompiledShape.
//
// Thread: AnswerShape's.
#ifndef HYDRANT_SERVER_SHAPES_GRAMMAR_SHAPE_H_
#define HYDRANT_SERVER_SHAPES_GRAMMAR_SHAPE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/grammar/grammar.h"
#include "server/engine/answer_shape.h"
#include "server/shapes/compiled_shape.h"

namespace hydrant {

class GrammarShape : public AnswerShape {
 public:
  // `prefix`: how the answer begins, before the sequence's first token; the shape allows it.
  GrammarShape(std::shared_ptr<CompiledShape> shape, std::string prefix);

  Verdict Push(int32_t token) override;
  bool Mask(std::span<uint32_t> bits) override;

 private:
  // Whether no byte may come next.
  bool IsOver(const grammar::GrammarState& state);

  const std::shared_ptr<CompiledShape> shape_;
  const std::string prefix_;
  // The engine's thread.
  std::optional<grammar::GrammarState> followed_;  // begins with the first token
  // Bytes that the state of masks has not seen: written by Push, taken by Mask.
  std::string unmasked_;
  // A worker's.
  std::optional<grammar::GrammarState> masked_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SHAPES_GRAMMAR_SHAPE_H_
