#include "api/response/embedding_writer.h"

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/escaping.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

void AppendNumbers(std::string* out, const std::vector<float>& numbers) {
  constexpr size_t kDigits = 14;  // and a comma
  out->reserve(out->size() + numbers.size() * kDigits);
  for (size_t i = 0; i < numbers.size(); ++i) {
    out->push_back(i == 0 ? '[' : ',');
    AppendJsonFloat(out, numbers[i]);
  }
  out->push_back(']');
}

// Little-endian, whatever this machine is.
void AppendBase64(std::string* out, const std::vector<float>& numbers) {
  std::string bytes;
  bytes.reserve(numbers.size() * sizeof(float));
  for (const float number : numbers) {
    const auto bits = std::bit_cast<uint32_t>(number);
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(bits >> shift & 0xff));
  }
  out->append("\"").append(absl::Base64Escape(bytes)).append("\"");
}

}  // namespace

std::string EmbeddingWriter::Body(const Answer& answer) {
  std::string out;
  AppendAnswerHead(&out, head_, "list");
  out.append(",\"data\":[");
  for (const AnswerChoice& choice : answer.choices) {
    out.append(choice.index == 0 ? "{" : ",{").append("\"object\":\"embedding\",\"index\":");
    AppendJsonInteger(&out, choice.index);
    out.append(",\"embedding\":");
    if (as_base64_) {
      AppendBase64(&out, choice.embedding);
    } else {
      AppendNumbers(&out, choice.embedding);
    }
    out.push_back('}');
  }
  out.push_back(']');
  AppendUsageMember(&out, answer.usage);
  out.push_back('}');
  return out;
}

void EmbeddingWriter::AppendChunk(std::string*, const AnswerDelta&) { assert(false); }
void EmbeddingWriter::AppendUsage(std::string*, const Usage&, const KvReport*) { assert(false); }

}  // namespace hydrant
