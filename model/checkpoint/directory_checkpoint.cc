#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/hf_config.h"
#include "model/checkpoint/quantised_tensors.h"
#include "model/files/file_error.h"
#include "model/files/json_document.h"
#include "model/files/safetensors_file.h"
#include "model/vocabulary/directory_tokenizer.h"

namespace hydrant {
namespace {

// config.json and its like have a few dozen fields; templates make tokenizer_config.json larger.
constexpr size_t kSmallJsonBytesMax = 16 << 20;
constexpr JsonLimits kSmallJsonLimits{200'000, 64};
// One line per tensor: the largest published have some 100,000.
constexpr size_t kIndexBytesMax = 64 << 20;
constexpr JsonLimits kIndexLimits{1'000'000, 8};
constexpr size_t kShardsMax = 1000;
constexpr size_t kTemplateBytesMax = 1 << 20;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

absl::StatusOr<JsonDocument> ReadJson(const WeightDirectory& directory, std::string_view name, size_t bytes_max,
                                      const JsonLimits& limits) {
  HYDRANT_ASSIGN_OR_RETURN(const std::string text, directory.Read(name, bytes_max));
  return JsonDocument::Parse(text, limits, std::string(name));
}

class DirectoryReader {
 public:
  explicit DirectoryReader(WeightDirectory directory) : directory_(std::move(directory)) {}

  absl::StatusOr<std::unique_ptr<Checkpoint>> Run() {
    HYDRANT_RETURN_IF_ERROR(ReadConfig());
    HYDRANT_RETURN_IF_ERROR(ReadTokenizer());
    HYDRANT_RETURN_IF_ERROR(ReadChatTemplate());
    HYDRANT_RETURN_IF_ERROR(directory_.Contains(kIndexFile) ? MapShards() : MapFile(kSingleFile));
    HYDRANT_RETURN_IF_ERROR(JoinQuantised(hf_.quantization, tensors_, checkpoint_->warnings));
    checkpoint_->quantization = hf_.quantization.method;
    FindOwnHead();
    HYDRANT_ASSIGN_OR_RETURN(checkpoint_->tensors, TensorTable::Bind(*hf_.naming, checkpoint_->config, hf_.expectation,
                                                                     weights_name_, tensors_, checkpoint_->warnings));
    checkpoint_->config.stored_dtype = checkpoint_->tensors.stored_dtype();
    return std::move(checkpoint_);
  }

  absl::Status ReadConfig() {
    HYDRANT_ASSIGN_OR_RETURN(const JsonDocument config,
                             ReadJson(directory_, "config.json", kSmallJsonBytesMax, kSmallJsonLimits));
    std::optional<JsonDocument> generation;
    std::optional<JsonValue> generation_root;
    if (directory_.Contains("generation_config.json")) {
      HYDRANT_ASSIGN_OR_RETURN(JsonDocument parsed,
                               ReadJson(directory_, "generation_config.json", kSmallJsonBytesMax, kSmallJsonLimits));
      generation.emplace(std::move(parsed));
      generation_root = generation->root();
    }
    HYDRANT_ASSIGN_OR_RETURN(
        hf_, ReadHfConfig(config.root(), generation_root ? &*generation_root : nullptr, checkpoint_->warnings));
    checkpoint_->config = hf_.config;
    checkpoint_->generation_defaults = hf_.generation_defaults;
    return absl::OkStatus();
  }

 private:
  absl::Status ReadTokenizer() {
    HYDRANT_ASSIGN_OR_RETURN(checkpoint_->tokenizer,
                             ReadDirectoryTokenizer(directory_, checkpoint_->config.vocab,
                                                    checkpoint_->config.control_ids(), checkpoint_->warnings));
    return absl::OkStatus();
  }

  // Newer checkpoints keep templates in files of their own, which win over tokenizer_config.json.
  absl::Status ReadChatTemplate() {
    constexpr std::string_view kTemplateFile = "chat_template.jinja", kMoreTemplates = "additional_chat_templates",
                               kToolUseFile = "tool_use.jinja";
    const bool has_file = directory_.Contains(kTemplateFile);
    if (has_file) {
      HYDRANT_ASSIGN_OR_RETURN(checkpoint_->chat_template, directory_.Read(kTemplateFile, kTemplateBytesMax));
    }
    if (directory_.Contains(kMoreTemplates)) {
      HYDRANT_ASSIGN_OR_RETURN(const WeightDirectory more, directory_.Inner(kMoreTemplates));
      if (more.Contains(kToolUseFile)) {
        HYDRANT_ASSIGN_OR_RETURN(checkpoint_->tool_use_template, more.Read(kToolUseFile, kTemplateBytesMax));
      }
    }
    constexpr std::string_view kConfigFile = "tokenizer_config.json";
    if (!directory_.Contains(kConfigFile)) return absl::OkStatus();
    HYDRANT_ASSIGN_OR_RETURN(const JsonDocument config,
                             ReadJson(directory_, kConfigFile, kSmallJsonBytesMax, kSmallJsonLimits));
    HYDRANT_RETURN_IF_ERROR(ReadTokenText(config.root(), "bos_token", checkpoint_->bos_token));
    HYDRANT_RETURN_IF_ERROR(ReadTokenText(config.root(), "eos_token", checkpoint_->eos_token));
    if (has_file) return absl::OkStatus();
    const auto field = config.root().Find("chat_template");
    if (!field) return absl::OkStatus();
    if (field->IsArray()) return ReadNamedTemplates(*field);
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view text, field->String());
    checkpoint_->chat_template = std::string(text);
    return absl::OkStatus();
  }

  // A list of named templates, of which two have a meaning: "default" and "tool_use".
  absl::Status ReadNamedTemplates(const JsonValue& list) {
    bool has_default = false;
    for (size_t i = 0; i < list.size(); ++i) {
      HYDRANT_ASSIGN_OR_RETURN(const JsonValue name_field, list[i].At("name"));
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view name, name_field.String());
      if (name != "default" && name != "tool_use") continue;
      HYDRANT_ASSIGN_OR_RETURN(const JsonValue text_field, list[i].At("template"));
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view text, text_field.String());
      if (name == "default") checkpoint_->chat_template = std::string(text);
      if (name == "tool_use" && checkpoint_->tool_use_template.empty())
        checkpoint_->tool_use_template = std::string(text);
      has_default |= name == "default";
    }
    return has_default ? absl::OkStatus() : list.Error("has no template named 'default'");
  }

  // A token's text, or an object that has it as `content`.
  static absl::Status ReadTokenText(const JsonValue& config, std::string_view name, std::string& out) {
    const auto field = config.Find(name);
    if (!field) return absl::OkStatus();
    const auto content = field->Find("content");
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view text, (content ? *content : *field).String());
    out = std::string(text);
    return absl::OkStatus();
  }

  // As in transformers, a head that is not the embedding is the model's own, whatever config.json says: who trains it and forgets the
  // flag would hear nonsense. One of another shape is what an embedding that was enlarged has left.
  void FindOwnHead() {
    ModelConfig& config = checkpoint_->config;
    if (!config.tied_embeddings) return;
    const RawTensor* embedding = FindTensor(*hf_.naming, TensorRole::kEmbedding, tensors_);
    const RawTensor* head = FindTensor(*hf_.naming, TensorRole::kHead, tensors_);
    if (embedding == nullptr || head == nullptr) return;
    const bool fits = head->shape == embedding->shape;
    const bool same = fits && head->format == embedding->format && head->rows == nullptr &&
                      embedding->rows == nullptr && head->data == embedding->data;
    if (same) return;
    config.tied_embeddings = !fits;
    checkpoint_->warnings.push_back(StrCat(head->file, ": tensor ", Quoted(head->name),
                                           ": is not the embedding, though config.json ties them; it is ",
                                           fits ? "used" : "not used, as its shape is another"));
  }

  absl::Status MapFile(std::string_view name) {
    weights_name_ = std::string(name);
    HYDRANT_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, directory_.Map(name));
    HYDRANT_ASSIGN_OR_RETURN(std::vector<RawTensor> tensors, ParseSafetensors(file->bytes(), file->name()));
    std::move(tensors.begin(), tensors.end(), std::back_inserter(tensors_));
    checkpoint_->files.push_back(std::move(file));
    return absl::OkStatus();
  }

  absl::Status MapShards() {
    HYDRANT_ASSIGN_OR_RETURN(const JsonDocument index, ReadJson(directory_, kIndexFile, kIndexBytesMax, kIndexLimits));
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue map, index.root().At("weight_map"));
    std::map<std::string, std::string> shard_of;  // tensor -> file
    std::map<std::string, size_t> shards;         // file -> tensors promised
    HYDRANT_RETURN_IF_ERROR(map.ForEachMember([&](std::string_view tensor, const JsonValue& value) -> absl::Status {
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view shard, value.String());
      if (!WeightDirectory::IsPlainName(shard)) return value.Error(Quoted(shard), " is not a plain file name");
      shard_of.emplace(tensor, shard);
      ++shards[std::string(shard)];
      if (shards.size() > kShardsMax) return map.Error("names more than ", kShardsMax, " files");
      return absl::OkStatus();
    }));
    for (const auto& [shard, promised] : shards) {
      const size_t first = tensors_.size();
      HYDRANT_RETURN_IF_ERROR(MapFile(shard));
      size_t kept = 0;
      for (size_t i = first; i < tensors_.size(); ++i) {
        const auto entry = shard_of.find(tensors_[i].name);
        if (entry != shard_of.end() && entry->second == shard) ++kept;
      }
      if (kept != promised) {
        return FileError(kIndexFile, "'weight_map'", promised - kept, " of the tensors it puts into ", Quoted(shard),
                         " are not there");
      }
    }
    weights_name_ = std::string(kIndexFile);
    return RefuseDuplicates();
  }

  absl::Status RefuseDuplicates() const {
    std::map<std::string_view, std::string_view> file_of;
    for (const RawTensor& tensor : tensors_) {
      const auto [entry, fresh] = file_of.emplace(tensor.name, tensor.file);
      if (!fresh) return FileError(tensor.file, "tensor " + Quoted(tensor.name), "is in ", entry->second, " as well");
    }
    return absl::OkStatus();
  }

  WeightDirectory directory_;
  HfConfig hf_;
  std::unique_ptr<Checkpoint> checkpoint_ = std::make_unique<Checkpoint>();
  std::string weights_name_;
  std::vector<RawTensor> tensors_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> ReadDirectoryCheckpoint(const std::string& path) {
  HYDRANT_ASSIGN_OR_RETURN(WeightDirectory directory, WeightDirectory::Open(path));
  return DirectoryReader(std::move(directory)).Run();
}

absl::Status CheckDirectoryConfig(const std::string& path) {
  HYDRANT_ASSIGN_OR_RETURN(WeightDirectory directory, WeightDirectory::Open(path));
  return DirectoryReader(std::move(directory)).ReadConfig();
}

}  // namespace hydrant
