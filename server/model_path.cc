#include "server/model_path.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/checkpoint/gguf_architecture.h"
#include "model/checkpoint/hf_families.h"

namespace hydrant {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

bool IsPlainPart(std::string_view part) {
  return !part.empty() && part != "." && part != ".." && part.find_first_not_of(kNameCharacters) == part.npos;
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The file that says which commit `main` is. Empty where there is none, or where it does not name a commit.
std::string CommitOfMain(const fs::path& repository) {
  std::ifstream file(repository / "refs" / "main");
  std::string commit;
  file >> commit;
  const bool plain = commit.size() <= 64 && commit.find_first_not_of("0123456789abcdef") == commit.npos;
  return plain ? commit : "";
}

constexpr std::string_view kPartEnding = "-00000-of-00000.gguf";  // of what the name of a part ends with; 0: a digit

// The number of the part that a name says, in "-00002-of-00003.gguf"; 0: it says none.
int PartOf(std::string_view file) {
  if (file.size() <= kPartEnding.size()) return 0;
  const std::string_view ending = file.substr(file.size() - kPartEnding.size());
  int number = 0;
  for (size_t i = 0; i < kPartEnding.size(); ++i) {
    const bool digit = kPartEnding[i] == '0';
    if (digit ? !absl::ascii_isdigit(static_cast<unsigned char>(ending[i])) : ending[i] != kPartEnding[i]) return 0;
    if (digit && i < 6) number = 10 * number + (ending[i] - '0');
  }
  return number;
}

// What stands between the name of a model and ".gguf", or the number of its first part, is its format, case apart:
// "SmolLM2-135M-Instruct.Q4_K_M.gguf".
bool IsOfFormat(const std::string& file, const std::string& format) {
  const std::string ending = absl::AsciiStrToLower(absl::StrCat(format, ".gguf"));
  std::string name = absl::AsciiStrToLower(file);
  if (PartOf(name) != 0) name.replace(name.size() - kPartEnding.size(), kPartEnding.size(), ".gguf");
  if (!absl::EndsWith(name, ending)) return false;
  const size_t before = name.size() - ending.size();
  return before == 0 || name[before - 1] == '-' || name[before - 1] == '.' || name[before - 1] == '_';
}

std::vector<std::string> GgufFilesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;  // what cannot be listed has no files
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (absl::EndsWith(name, ".gguf") && PartOf(name) <= 1) names.push_back(name);  // the first part stands for all
  }
  std::sort(names.begin(), names.end());
  return names;
}

// "models/SmolLM2.gguf" -> "SmolLM2"; a directory's own name.
absl::StatusOr<FoundModel> ModelAt(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored) && !fs::exists(fs::path(path) / "config.json", ignored)) {
    const std::vector<std::string> files = GgufFilesIn(path);
    const std::string hint = files.empty() ? "" : absl::StrCat("; name the file: ", absl::StrJoin(files, ", "));
    return absl::NotFoundError(absl::StrCat(path, ": there is no config.json in this directory", hint));
  }
  fs::path name(path);
  if (!name.has_filename()) name = name.parent_path();
  name = name.filename();
  return FoundModel{path, (name.extension() == ".gguf" ? name.stem() : name).string(), name.string()};
}

// The path of the one model in the folder of a snapshot.
absl::StatusOr<std::string> ModelIn(const fs::path& snapshot, const HubName& name) {
  std::vector<std::string> files = GgufFilesIn(snapshot);
  std::error_code ignored;
  if (name.format.empty() && fs::exists(snapshot / "config.json", ignored) && files.empty()) return snapshot.string();
  std::vector<std::string> meant;
  std::copy_if(files.begin(), files.end(), std::back_inserter(meant),
               [&name](const std::string& file) { return name.format.empty() || IsOfFormat(file, name.format); });
  if (meant.size() == 1) return (snapshot / meant.front()).string();
  if (meant.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "the cache has ", name.repository, " without a ", name.format.empty() ? "model" : name.format + " file",
        files.empty() ? "" : absl::StrCat(" (it has ", absl::StrJoin(files, ", "), ")"), "; ./hydrant fetch ",
        name.repository, name.format.empty() ? "" : ":" + name.format, " brings it there"));
  }
  return absl::InvalidArgumentError(absl::StrCat(name.repository, " could mean ", absl::StrJoin(meant, ", "),
                                                 "; name one, for example ", name.repository, ":Q4_K_M"));
}

}  // namespace

bool ParseHubName(std::string_view name, HubName* parsed) {
  const size_t colon = std::min(name.find(':'), name.size());
  const std::string_view repository = name.substr(0, colon);
  const std::string_view format = colon == name.size() ? "" : name.substr(colon + 1);
  const size_t slash = repository.find('/');
  if (slash == repository.npos || !IsPlainPart(repository.substr(0, slash)) ||
      !IsPlainPart(repository.substr(slash + 1)) || (colon != name.size() && !IsPlainPart(format))) {
    return false;
  }
  *parsed = {std::string(repository), std::string(format)};
  return true;
}

std::string HubCache() {
  if (std::string cache = Variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = Variable("HF_HOME"); !home.empty()) return home + "/hub";
  const std::string base = Variable("XDG_CACHE_HOME");
  return (base.empty() ? Variable("HOME") + "/.cache" : base) + "/huggingface/hub";
}

absl::StatusOr<FoundModel> FindModel(const std::string& model, const std::string& cache) {
  std::error_code ignored;
  HubName name;
  if (fs::exists(model, ignored)) return ModelAt(model);
  if (!ParseHubName(model, &name)) {
    return absl::NotFoundError(
        absl::StrCat("'", model, "': there is no such file or directory. Models of the Hugging Face cache are named ",
                     "org/name; ./hydrant up takes the names that ./hydrant models lists"));
  }
  const size_t slash = name.repository.find('/');
  const fs::path repository = fs::path(cache) / absl::StrCat("models--", name.repository.substr(0, slash), "--",
                                                             name.repository.substr(slash + 1));
  const std::string commit = CommitOfMain(repository);
  const fs::path snapshot = repository / "snapshots" / commit;
  if (commit.empty() || !fs::is_directory(snapshot, ignored)) {
    return absl::NotFoundError(absl::StrCat(model, ": there is no such path, and no model of this name in ", cache,
                                            "; ./hydrant fetch ", model, " brings it there"));
  }
  absl::StatusOr<std::string> path = ModelIn(snapshot, name);
  if (!path.ok()) return path.status();
  return FoundModel{*std::move(path), model, model};
}

std::string ModelFamiliesJson() {
  nlohmann::ordered_json families;
  for (const HfFamily& family : HfFamilies()) families["model_type"].push_back(family.model_type);
  for (const GgufArchitecture& architecture : GgufArchitectures()) families["gguf"].push_back(architecture.name);
  return families.dump();
}

}  // namespace hydrant
