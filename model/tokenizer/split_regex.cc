#include "model/tokenizer/split_regex.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>
#include <utility>

#include "model/files/file_error.h"
#include "model/text/str_cat.h"
#include "model/tokenizer/pcre2_code.h"
#include "model/tokenizer/split_effort.h"

namespace hydrant {
namespace {

// Ten times the longest published split pattern.
constexpr size_t kPatternBytesMax = 8192;
// Backtracking steps of one match. Published patterns need at most a few per character; PCRE2's own default.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr size_t kJitStackMin = 32 * 1024;
constexpr size_t kJitStackMax = 1024 * 1024;

// Walks an Oniguruma pattern and writes the PCRE2 one.
class Translator {
 public:
  Translator(std::string_view pattern, std::string_view file) : in_(pattern), file_(file) {}

  absl::StatusOr<std::string> Run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      absl::Status status;
      if (c == '\\') {
        status = Escape(false);
      } else if (c == '[') {
        status = Class();
      } else if (c == '(') {
        status = Group();
      } else if (c == '{') {
        status = Interval();
      } else if (c == '^' || c == '$') {
        // Line anchors in Oniguruma, subject anchors in PCRE2.
        status = Refuse(std::string_view(&in_[at_], 1));
      } else {
        out_ += c;
        ++at_;
      }
      if (!status.ok()) return status;
    }
    return std::move(out_);
  }

 private:
  absl::Status Refuse(std::string_view construct) const {
    return FileError(file_, "split pattern", "the construct ", Quoted(construct), " is not supported");
  }

  // Oniguruma's \s is the property White_Space; PCRE2's has U+180E as well.
  static constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";
  // Oniguruma's \w.
  static constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

  absl::Status Escape(bool in_class) {
    if (at_ + 1 >= in_.size()) return Refuse("\\");
    const char c = in_[at_ + 1];
    const std::string_view escape = in_.substr(at_, 2);
    if (c == 'p' || c == 'P') return Property();
    if (c == 'x' || c == 'u') return CodePoint();
    at_ += 2;
    switch (c) {
      case 's':
        out_ += StrCat(in_class ? "" : "[", kSpace, in_class ? "" : "]");
        return absl::OkStatus();
      case 'w':
        out_ += StrCat(in_class ? "" : "[", kWord, in_class ? "" : "]");
        return absl::OkStatus();
      case 'S':
      case 'W':
        if (in_class) return Refuse(StrCat("[…", escape, "…]"));
        out_ += StrCat("[^", c == 'S' ? kSpace : kWord, "]");
        return absl::OkStatus();
      case 'd':
        out_ += "\\p{Nd}";
        return absl::OkStatus();
      case 'D':
        out_ += "\\P{Nd}";
        return absl::OkStatus();
      case 'n':
      case 'r':
      case 't':
      case 'f':
        out_ += escape;
        return absl::OkStatus();
      default:
        if (std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80) return Refuse(escape);
        out_ += escape;
        return absl::OkStatus();
    }
  }

  // General categories by their short names and scripts mean the same in both.
  absl::Status Property() {
    const size_t close = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || close == in_.npos) return Refuse(in_.substr(at_, 4));
    const std::string_view whole = in_.substr(at_, close + 1 - at_);
    for (const char c : whole.substr(3, whole.size() - 4)) {
      if (!std::isalpha(static_cast<unsigned char>(c)) && c != '^' && c != '_') return Refuse(whole);
    }
    out_ += whole;
    at_ = close + 1;
    return absl::OkStatus();
  }

  // \xHH, \x{H…} and \uHHHH, written as \x{…}.
  absl::Status CodePoint() {
    size_t begin = at_ + 2, end = begin + (in_[at_ + 1] == 'u' ? 4 : 2), next = end;
    if (in_[at_ + 1] == 'x' && begin < in_.size() && in_[begin] == '{') {
      ++begin;
      end = in_.find('}', begin);
      next = end + 1;
    }
    if (end == in_.npos || end > in_.size() || begin == end || end - begin > 6) return Refuse(in_.substr(at_, 8));
    const std::string_view digits = in_.substr(begin, end - begin);
    for (const char c : digits) {
      if (!std::isxdigit(static_cast<unsigned char>(c))) return Refuse(in_.substr(at_, 8));
    }
    // In Oniguruma \x80 and above are bytes of the encoding, not characters.
    if (in_[at_ + 1] == 'x' && next == end && digits[0] >= '8') return Refuse(in_.substr(at_, 4));
    out_ += StrCat("\\x{", digits, "}");
    at_ = next;
    return absl::OkStatus();
  }

  absl::Status Class() {
    out_ += in_[at_++];
    if (at_ < in_.size() && in_[at_] == '^') out_ += in_[at_++];
    if (at_ < in_.size() && in_[at_] == ']') return Refuse("[]…]");
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '\\') {
        HYDRANT_RETURN_IF_ERROR(Escape(true));
        continue;
      }
      // Oniguruma nests classes and intersects them.
      if (in_[at_] == '[' || in_.substr(at_, 2) == "&&") return Refuse(StrCat("[…", in_.substr(at_, 2), "…]"));
      out_ += in_[at_++];
    }
    if (at_ == in_.size()) return Refuse("[ without ]");
    out_ += in_[at_++];
    return absl::OkStatus();
  }

  absl::Status Group() {
    static constexpr std::array<std::string_view, 6> kGroups = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (in_.substr(at_, 2) != "(?") {
      if (in_.substr(at_, 2) == "(*") return Refuse("(*");  // PCRE2's verbs
      out_ += in_[at_++];
      return absl::OkStatus();
    }
    if (in_.substr(at_, 4) == "(?i:") {
      out_ += "(?i:";
      at_ += 4;
      return absl::OkStatus();
    }
    for (const std::string_view group : kGroups) {
      if (in_.substr(at_, group.size()) != group) continue;
      out_ += group;
      at_ += group.size();
      return absl::OkStatus();
    }
    return Refuse(in_.substr(at_, 4));
  }

  // {n}, {n,} and {n,m}. A '+' after it is possessive in PCRE2 and a second repeat in Oniguruma; {,m} differs too.
  absl::Status Interval() {
    const size_t close = in_.find('}', at_);
    if (close == in_.npos || close == at_ + 1) return Refuse(in_.substr(at_, 4));
    const std::string_view whole = in_.substr(at_, close + 1 - at_);
    const bool plain =
        std::all_of(whole.begin() + 1, whole.end() - 1, [](char c) { return (c >= '0' && c <= '9') || c == ','; });
    if (!plain || whole[1] == ',') return Refuse(whole);
    if (close + 1 < in_.size() && (in_[close + 1] == '+' || in_[close + 1] == '?'))
      return Refuse(in_.substr(at_, whole.size() + 1));
    out_ += whole;
    at_ = close + 1;
    return absl::OkStatus();
  }

  std::string_view in_;
  std::string_view file_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> TranslateSplitPattern(std::string_view pattern, std::string_view file) {
  return Translator(pattern, file).Run();
}

struct SplitRegex::Code {
  Pcre2Code code;
  bool jit = false;
};

struct SplitRegex::Matcher::Scratch {
  Pcre2MatchData data;
  Pcre2MatchContext context;
  Pcre2JitStack stack;  // made when a match first needs it
};

SplitRegex::SplitRegex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
SplitRegex::SplitRegex(SplitRegex&&) noexcept = default;
SplitRegex& SplitRegex::operator=(SplitRegex&&) noexcept = default;
SplitRegex::~SplitRegex() = default;

absl::StatusOr<SplitRegex> SplitRegex::Create(std::string_view pattern, std::string_view file) {
  if (pattern.size() > kPatternBytesMax) {
    return FileError(file, "split pattern", "has ", pattern.size(), " bytes; at most ", kPatternBytesMax, " are read");
  }
  HYDRANT_ASSIGN_OR_RETURN(const std::string translated, TranslateSplitPattern(pattern, file));
  HYDRANT_RETURN_IF_ERROR(CheckSplitEffort(translated, pattern, file));
  auto code = std::make_unique<Code>();
  HYDRANT_ASSIGN_OR_RETURN(code->code, CompilePcre2(translated, 0, pattern, file));
  code->jit = pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return SplitRegex(std::move(code));
}

SplitRegex::Matcher::Matcher(const SplitRegex& regex) : regex_(regex), scratch_(std::make_unique<Scratch>()) {
  scratch_->data.reset(pcre2_match_data_create(1, nullptr));
  scratch_->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(scratch_->context.get(), kMatchLimit);
}

SplitRegex::Matcher::~Matcher() = default;

bool SplitRegex::Matcher::Find(std::string_view text, size_t from, Match& match) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR8>(text.data());
  const pcre2_code* code = regex_.code_->code.get();
  int found;
  if (regex_.code_->jit) {
    found = pcre2_jit_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, scratch_->data.get(),
                            scratch_->context.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && scratch_->stack == nullptr) {
      scratch_->stack.reset(pcre2_jit_stack_create(kJitStackMin, kJitStackMax, nullptr));
      pcre2_jit_stack_assign(scratch_->context.get(), nullptr, scratch_->stack.get());
      found = pcre2_jit_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, scratch_->data.get(),
                              scratch_->context.get());
    }
  } else {
    found = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, scratch_->data.get(),
                        scratch_->context.get());
  }
  if (found < 0) return false;
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(scratch_->data.get());
  match = {ends[0], ends[1]};
  assert(match.begin >= from && match.begin <= match.end && match.end <= text.size());
  return true;
}

}  // namespace hydrant
