// What a test's requests are checked against: the byte tokenizer, and room for whatever a test does not set itself.
#ifndef HYDRANT_TESTS_SERVER_GENERATION_BYTE_CONTEXT_H_
#define HYDRANT_TESTS_SERVER_GENERATION_BYTE_CONTEXT_H_

#include <memory>
#include <vector>

#include "server/generation/generation_prepare.h"
#include "tests/support/byte_tokenizer.h"

namespace hydrant {

inline ServingContext ByteContext(int32_t context_max) {
  ServingContext context;
  context.request.model_names = {"m"};
  context.request.vocab_size = ByteTokenizer::kVocab;
  context.request.context = context_max;
  context.kv = {4, 2, context_max};
  context.tokenizer = std::make_shared<ByteTokenizer>();
  context.shapes = std::make_shared<ShapeCache>(std::make_shared<const ShapeVocabulary>(
      context.tokenizer, context.request.vocab_size, std::vector<int32_t>{ByteTokenizer::kEos}));
  context.request.constraints = true;
  context.limits.context_max = context_max;
  context.limits.blocks = 100;
  return context;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_GENERATION_BYTE_CONTEXT_H_
