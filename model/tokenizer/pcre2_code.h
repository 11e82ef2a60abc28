// Compiled regular expressions of PCRE2, owned.
//
// Thread: any.
#ifndef HYDRANT_MODEL_TOKENIZER_PCRE2_CODE_H_
#define HYDRANT_MODEL_TOKENIZER_PCRE2_CODE_H_

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace hydrant {

struct FreePcre2 {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};
using Pcre2Code = std::unique_ptr<pcre2_code, FreePcre2>;
using Pcre2MatchData = std::unique_ptr<pcre2_match_data, FreePcre2>;
using Pcre2MatchContext = std::unique_ptr<pcre2_match_context, FreePcre2>;
using Pcre2JitStack = std::unique_ptr<pcre2_jit_stack, FreePcre2>;

// What PCRE2 calls the error.
std::string Pcre2Message(int error);

// `translated` in PCRE2's words, over UTF-8 and with Unicode's classes; `pattern` and `file` are for messages.
absl::StatusOr<Pcre2Code> CompilePcre2(std::string_view translated, uint32_t options, std::string_view pattern,
                                       std::string_view file);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_PCRE2_CODE_H_
