// Times encoding and decoding on one thread, in MB (of text) per second, the best of several runs: prose, the same with every
// eighth letter replaced by one of another script, and a megabyte of one character each. The limits are 20 MB/s of prose and
// 1 MB/s of everything.
//
//   tokenizer_bench TOKENIZER… [--text FILE] [--repeats n]
// TOKENIZER is a .gguf file or a directory with a tokenizer; FILE holds plain text, which is repeated up to 4 MB.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/file_error.h"
#include "model/tokenizer/bpe_tokenizer.h"
#include "model/vocabulary/directory_tokenizer.h"
#include "model/vocabulary/gguf_tokenizer.h"

namespace hydrant {
namespace {

constexpr size_t kTextBytes = 4 << 20;
constexpr double kProseLimit = 20, kAnyLimit = 1;

absl::StatusOr<std::shared_ptr<const Tokenizer>> Open(const std::filesystem::path& path) {
  std::vector<std::string> warnings;
  const bool is_gguf = path.extension() == ".gguf";
  HYDRANT_ASSIGN_OR_RETURN(const WeightDirectory directory, WeightDirectory::Open(is_gguf ? path.parent_path() : path));
  if (!is_gguf) return ReadDirectoryTokenizer(directory, 1 << 19, {}, warnings);
  HYDRANT_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, directory.Map(path.filename().string()));
  HYDRANT_ASSIGN_OR_RETURN(const GgufFile gguf, GgufFile::Parse(file->bytes(), file->name()));
  HYDRANT_ASSIGN_OR_RETURN(const TokenizerSpec spec, ReadGgufTokenizer(gguf, warnings));
  return BpeTokenizer::Create(spec, 0);
}

template <typename Work>
double BestMbPerSecond(size_t bytes, int repeats, const Work& work) {
  double best = 0;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, static_cast<double>(bytes) / 1e6 / seconds);
  }
  return best;
}

void Report(const Tokenizer& tokenizer, const std::string& name, const std::string& text, double limit, int repeats) {
  std::vector<int32_t> ids;
  const double encode = BestMbPerSecond(text.size(), repeats, [&] { ids = tokenizer.Encode(text, {}); });
  const double decode = BestMbPerSecond(text.size(), repeats, [&] { tokenizer.Decode(ids, true); });
  std::printf("  %-12s %8.1f %8.1f   %7zu tokens, limit %2.0f MB/s: %s\n", name.c_str(), encode, decode, ids.size(),
              limit, encode >= limit ? "met" : "MISSED");
}

std::string Repeated(const std::string& text, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += text;
  out.resize(bytes);
  return out;
}

int Main(int argc, char** argv) {
  std::vector<std::string> paths;
  std::string prose =
      "The harbour lay quiet in the early morning, and the keeper of the lighthouse, who hadn't slept, counted 27 "
      "boats "
      "going out. \"They'll be back before the storm,\" she said to nobody in particular.\n";
  int repeats = 5;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--repeats" && i + 1 < argc) {
      repeats = std::atoi(argv[++i]);
    } else if (argument == "--text" && i + 1 < argc) {
      std::stringstream text;
      text << std::ifstream(argv[++i], std::ios::binary).rdbuf();
      prose = text.str();
    } else {
      paths.emplace_back(argument);
    }
  }
  if (paths.empty() || prose.empty()) {
    std::fprintf(stderr, "usage: tokenizer_bench TOKENIZER... [--text FILE] [--repeats n]\n");
    return 64;
  }
  std::string mixed;
  for (size_t i = 0; i < prose.size(); ++i)
    mixed += i % 8 == 7 ? std::vector<std::string>{"é", "中", "ж", "😀"}[i / 8 % 4] : std::string(1, prose[i]);
  for (const std::string& path : paths) {
    const auto tokenizer = Open(path);
    if (!tokenizer.ok()) {
      std::fprintf(stderr, "%s\n", std::string(tokenizer.status().message()).c_str());
      return 78;
    }
    std::printf("%s\n  %-12s %8s %8s   MB/s\n", path.c_str(), "", "encode", "decode");
    Report(**tokenizer, "prose", Repeated(prose, kTextBytes), kProseLimit, repeats);
    Report(**tokenizer, "mixed", Repeated(mixed, kTextBytes), kAnyLimit, repeats);
    for (const char c : {'a', '_', '^', ' ', '\n'}) {
      Report(**tokenizer,
             c == ' '    ? "1 MB of ' '"
             : c == '\n' ? "1 MB of \\n"
                         : "1 MB of " + std::string(1, c),
             std::string(1 << 20, c), kAnyLimit, repeats);
    }
  }
  return 0;
}

}  // namespace
}  // namespace hydrant

int main(int argc, char** argv) { return hydrant::Main(argc, argv); }
