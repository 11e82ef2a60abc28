// Reads requests, one JSON object a line, and answers each with one line, so that another program can compare what Hydrant's
// tokenizers do: tokenizer_tool PATH, of a tokenizer.json, a .gguf file or a directory with either or an older tokenizer.
//   {"text": str, "add": bool, "parse": bool, "plain": [[begin, end], …]} -> {"ids": […]}
//   {"ids": […], "skip": bool} -> {"text": str, "streamed": str}
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/files/file_error.h"
#include "model/files/mapped_file.h"
#include "model/tokenizer/bpe_tokenizer.h"
#include "model/vocabulary/directory_tokenizer.h"
#include "model/vocabulary/gguf_tokenizer.h"

namespace hydrant {
namespace {

using nlohmann::json;

absl::StatusOr<std::shared_ptr<const Tokenizer>> Open(const std::filesystem::path& path) {
  std::vector<std::string> warnings;
  const bool is_directory = std::filesystem::is_directory(path);
  HYDRANT_ASSIGN_OR_RETURN(const WeightDirectory directory,
                           WeightDirectory::Open(is_directory ? path.string() : path.parent_path().string()));
  // Larger than every vocabulary: there is no config.json to say how many rows there are.
  constexpr int32_t kVocabMax = 1 << 19;
  if (path.extension() != ".gguf") {
    return ReadDirectoryTokenizer(directory, kVocabMax, {}, warnings);
  }
  HYDRANT_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, directory.Map(path.filename().string()));
  HYDRANT_ASSIGN_OR_RETURN(const GgufFile gguf, GgufFile::Parse(file->bytes(), file->name()));
  HYDRANT_ASSIGN_OR_RETURN(const TokenizerSpec spec, ReadGgufTokenizer(gguf, warnings));
  return BpeTokenizer::Create(spec, 0);
}

json Answer(const Tokenizer& tokenizer, const json& request) {
  if (request.contains("text")) {
    std::vector<ByteRange> client_ranges;
    for (const json& range : request.value("plain", json::array())) client_ranges.push_back({range[0], range[1]});
    return {{"ids", tokenizer.Encode(request["text"].get<std::string>(),
                                     {request.value("add", true), request.value("parse", true), client_ranges})}};
  }
  const auto ids = request["ids"].get<std::vector<int32_t>>();
  const bool skip = request.value("skip", true);
  Detokenizer stream(tokenizer, skip);
  std::string streamed;
  for (const int32_t id : ids) streamed += stream.Push(id);
  return {{"text", tokenizer.Decode(ids, skip)}, {"streamed", streamed + stream.Finish()}};
}

int Main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenizer_tool PATH\n";
    return 64;
  }
  const auto tokenizer = Open(argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 78;
  }
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Answer(**tokenizer, json::parse(line)).dump() << '\n';
  }
  return 0;
}

}  // namespace
}  // namespace hydrant

int main(int argc, char** argv) { return hydrant::Main(argc, argv); }
