#include "model/tokenizer/pcre2_code.h"

#include "model/files/file_error.h"
#include "model/text/str_cat.h"

namespace hydrant {

std::string Pcre2Message(int error) {
  PCRE2_UCHAR8 text[256];
  if (pcre2_get_error_message_8(error, text, sizeof(text)) < 0) return StrCat("error ", error);
  return reinterpret_cast<const char*>(text);
}

absl::StatusOr<Pcre2Code> CompilePcre2(std::string_view translated, uint32_t options, std::string_view pattern,
                                       std::string_view file) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Pcre2Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR8>(translated.data()), translated.size(),
                               PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | options, &error, &offset, nullptr));
  if (code == nullptr) return FileError(file, "split pattern", Pcre2Message(error), " in ", Quoted(pattern));
  return code;
}

}  // namespace hydrant
