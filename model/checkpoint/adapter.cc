#include "model/checkpoint/adapter.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "model/files/dequantize.h"
#include "model/files/file_error.h"
#include "model/files/json_document.h"
#include "model/files/mapped_file.h"
#include "model/files/raw_tensor.h"
#include "model/files/safetensors_file.h"

namespace hydrant {
namespace {

constexpr const char* kAdapterConfig = "adapter_config.json";
constexpr const char* kAdapterWeights = "adapter_model.safetensors";
constexpr size_t kConfigBytesMax = 4 << 20;
constexpr JsonLimits kConfigLimits{200'000, 16};

// Fields that say nothing of what an adapter computes, or that are read below.
constexpr std::string_view kKnownFields[] = {
    "peft_type", "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "bias", "init_lora_weights",
    "base_model_name_or_path", "auto_mapping", "revision", "inference_mode", "task_type", "peft_version",
    "lora_dropout",
    // Which modules have tensors, the tensors say.
    "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern",
    // How the base's weights lie, not A and B.
    "fan_in_fan_out",
    // How A and B began, and what belongs to a field that is refused when it is used.
    "loftq_config", "eva_config", "corda_config", "lora_ga_config", "megatron_core", "qalora_group_size",
    "runtime_config"};

// Null, false, 0, and what is empty.
bool SaysNothing(const JsonValue& value) {
  if (const auto flag = value.Bool(); flag.ok()) return !*flag;
  if (const auto text = value.String(); text.ok()) return text->empty();
  if (const auto number = value.Number(); number.ok()) return *number == 0;
  if (value.IsArray()) return value.size() == 0;
  bool empty = true;
  return value
             .ForEachMember([&](std::string_view, const JsonValue&) {
               empty = false;
               return absl::OkStatus();
             })
             .ok() &&
         empty;
}

// A key is a regular expression to PEFT; plain names are all that it is used for.
bool IsPlainKey(std::string_view key) {
  return std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

bool Matches(std::string_view key, std::string_view module) {
  if (!module.ends_with(key)) return false;
  return module.size() == key.size() || module[module.size() - key.size() - 1] == '.';
}

// A pattern of the configuration: values by modules.
using Pattern = std::map<std::string, double>;

class Config {
 public:
  absl::Status Read(const JsonValue& root) {
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue type, root.At("peft_type"));
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view name, type.String());
    if (name != "LORA") return type.Error(Quoted(name), " is not supported (LORA is)");
    HYDRANT_RETURN_IF_ERROR(root.ForEachMember([&](std::string_view key, const JsonValue& value) -> absl::Status {
      const bool known = std::find(std::begin(kKnownFields), std::end(kKnownFields), key) != std::end(kKnownFields);
      if (known || !root.Find(key) || SaysNothing(value)) return absl::OkStatus();
      return value.Error("is not supported: only plain LoRA on the matrices of layers is");
    }));
    if (const auto bias = root.Find("bias")) {
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view biases, bias->String());
      if (biases != "none") return bias->Error(Quoted(biases), " is not supported (none is)");
    }
    HYDRANT_RETURN_IF_ERROR(ReadStart(root));
    HYDRANT_RETURN_IF_ERROR(root.Read("r", 1, kAdapterRankMax, rank_));
    HYDRANT_RETURN_IF_ERROR(root.Read("lora_alpha", alpha_));
    if (!std::isfinite(alpha_)) return root.Find("lora_alpha")->Error("is not a finite number");
    HYDRANT_RETURN_IF_ERROR(root.Read("use_rslora", by_root_));
    HYDRANT_RETURN_IF_ERROR(ReadPattern(root, "rank_pattern", ranks_));
    HYDRANT_RETURN_IF_ERROR(ReadPattern(root, "alpha_pattern", alphas_));
    if (const auto base = root.Find("base_model_name_or_path")) {
      HYDRANT_ASSIGN_OR_RETURN(const std::string_view base_name, base->String());
      base_model = std::string(base_name);
    }
    return absl::OkStatus();
  }

  // Errors: two keys of a pattern have two values for the module.
  absl::StatusOr<int32_t> RankOf(std::string_view module) const {
    HYDRANT_ASSIGN_OR_RETURN(const double rank, ValueOf(ranks_, "rank_pattern", module, rank_));
    if (!(rank >= 1 && rank <= kAdapterRankMax && rank == std::floor(rank))) {
      return FileError(kAdapterConfig, "'rank_pattern'", rank, " for ", Quoted(module), " is no rank in [1, ",
                       kAdapterRankMax, "]");
    }
    return static_cast<int32_t>(rank);
  }
  absl::StatusOr<float> ScaleOf(std::string_view module, int32_t rank) const {
    HYDRANT_ASSIGN_OR_RETURN(const double alpha, ValueOf(alphas_, "alpha_pattern", module, alpha_));
    const auto scale = static_cast<float>(alpha / (by_root_ ? std::sqrt(rank) : rank));
    if (!std::isfinite(scale)) return FileError(kAdapterConfig, "'lora_alpha'", "is too large");
    return scale;
  }

  std::string base_model;

 private:
  // Some ways to begin change the base model as well, and A and B go with what they left of it.
  static absl::Status ReadStart(const JsonValue& root) {
    const auto start = root.Find("init_lora_weights");
    if (!start || start->Bool().ok()) return absl::OkStatus();
    HYDRANT_ASSIGN_OR_RETURN(const std::string_view name, start->String());
    if (name == "gaussian" || name == "eva" || name == "orthogonal") return absl::OkStatus();
    return start->Error(Quoted(name),
                        " is not supported: it may have changed the base model; convert the adapter to "
                        "plain LoRA when it is saved");
  }

  static absl::Status ReadPattern(const JsonValue& root, std::string_view field, Pattern& pattern) {
    const auto found = root.Find(field);
    if (!found) return absl::OkStatus();
    return found->ForEachMember([&](std::string_view key, const JsonValue& value) -> absl::Status {
      if (!IsPlainKey(key)) return value.Error("the key is not a module's name or the end of one");
      HYDRANT_ASSIGN_OR_RETURN(const double number, value.Number());
      if (!std::isfinite(number)) return value.Error("is not a finite number");
      pattern.emplace(key, number);
      return absl::OkStatus();
    });
  }

  static absl::StatusOr<double> ValueOf(const Pattern& pattern, std::string_view field, std::string_view module,
                                        double otherwise) {
    std::optional<double> value;
    for (const auto& [key, number] : pattern) {
      if (!Matches(key, module)) continue;
      if (value.has_value() && *value != number) {
        return FileError(kAdapterConfig, Quoted(field), "has two values for ", Quoted(module));
      }
      value = number;
    }
    return value.value_or(otherwise);
  }

  int32_t rank_ = 8;  // this and what follows: where the file says nothing
  double alpha_ = 8;
  bool by_root_ = false;
  Pattern ranks_, alphas_;
};

// The two tensors of a module.
struct Module {
  const RawTensor* a = nullptr;
  const RawTensor* b = nullptr;
};

absl::Status Wrong(const RawTensor& tensor, std::string_view message) {
  return FileError(tensor.file, "tensor " + Quoted(tensor.name), message);
}

// By the names of modules.
absl::StatusOr<std::map<std::string, Module, std::less<>>> ModulesOf(const std::vector<RawTensor>& tensors) {
  constexpr std::string_view kBegin = "base_model.model.", kA = ".lora_A.weight", kB = ".lora_B.weight";
  std::map<std::string, Module, std::less<>> modules;
  for (const RawTensor& tensor : tensors) {
    const std::string_view name = tensor.name;
    const bool is_a = name.ends_with(kA), is_b = name.ends_with(kB);
    if (!name.starts_with(kBegin) || is_a == is_b || name.size() <= kBegin.size() + kA.size()) {
      return Wrong(tensor, "is no A or B of a module ('base_model.model.NAME.lora_A.weight')");
    }
    Module& module = modules[std::string(name.substr(kBegin.size(), name.size() - kBegin.size() - kA.size()))];
    (is_a ? module.a : module.b) = &tensor;
  }
  return modules;
}

// [rows, cols], all of them finite.
absl::StatusOr<AdapterFactor> FactorOf(const RawTensor& tensor, int64_t rows, int64_t cols) {
  if (!tensor.refused_type.empty()) {
    return FileError(tensor.file, "tensor " + Quoted(tensor.name), "dtype ", tensor.refused_type,
                     " is not supported (F32, F16 and BF16 are)");
  }
  if (tensor.shape != std::vector<int64_t>{rows, cols}) {
    return FileError(tensor.file, "tensor " + Quoted(tensor.name), "its shape is not [", rows, ", ", cols, "]");
  }
  std::vector<float> values(static_cast<size_t>(cols));
  const int64_t bytes = RowBytes(tensor.format, cols);
  bool finite = true;
  for (int64_t row = 0; row < rows; ++row) {
    finite &= DequantizeRow(tensor.format, tensor.data.data() + row * bytes, cols, values.data());
  }
  if (!finite) return Wrong(tensor, "holds a NaN or an infinity");
  return AdapterFactor{.format = tensor.format, .count = rows, .cols = cols, .data = tensor.data};
}

// Whether all of a matrix's rows are among those of its module.
bool HasRowsIn(const AdapterTarget& target, int64_t module_rows) {
  const std::vector<int32_t>& rows = target.stored_rows;
  return rows.empty() || (std::ssize(rows) == target.rows && std::all_of(rows.begin(), rows.end(), [&](int32_t row) {
                            return row >= 0 && row < module_rows;
                          }));
}

// What a module's A and B do to each matrix in it.
absl::Status AddChanges(const Config& config, const std::string& name, const Module& module,
                        const AdapterTargets& targets, int32_t rank_max, Adapter& adapter) {
  if (module.a == nullptr) return Wrong(*module.b, "has no lora_A beside it");
  if (module.b == nullptr) return Wrong(*module.a, "has no lora_B beside it");
  const std::vector<AdapterTarget>& found = targets.Find(name);
  if (found.empty()) {
    return Wrong(*module.a, "is of no module that can be adapted: q, k, v, o, gate, up and down of the model's layers");
  }
  HYDRANT_ASSIGN_OR_RETURN(const int32_t rank, config.RankOf(name));
  if (rank > rank_max) {
    return FileError(kAdapterConfig, "'r'", "rank ", rank, " of ", Quoted(name), " is above the limit of ", rank_max);
  }
  HYDRANT_ASSIGN_OR_RETURN(const float scale, config.ScaleOf(name, rank));
  HYDRANT_ASSIGN_OR_RETURN(const AdapterFactor a, FactorOf(*module.a, rank, found.front().cols));
  HYDRANT_ASSIGN_OR_RETURN(const AdapterFactor b, FactorOf(*module.b, AdapterTargets::RowsOf(found), rank));
  for (const AdapterTarget& target : found) {
    if (!HasRowsIn(target, b.count)) return Wrong(*module.b, "the model's matrices are not made of its rows");
    AdapterChange change = {.rank = rank, .scale = scale, .a = a, .b = b};
    change.b.count = target.rows;
    change.b.rows = target.stored_rows;
    if (!adapter.changes.emplace(Adapter::Place(target.layer, target.role), std::move(change)).second) {
      return Wrong(*module.a, "is of a module that another tensor is of, too");
    }
  }
  adapter.rank = std::max(adapter.rank, rank);
  return absl::OkStatus();
}

}  // namespace

std::vector<float> AdapterFactor::Values() const {
  const int64_t bytes = RowBytes(format, cols);
  std::vector<float> values(static_cast<size_t>(count * cols));
  for (int64_t row = 0; row < count; ++row) {
    const int64_t from = rows.empty() ? row : rows[static_cast<size_t>(row)];
    DequantizeRow(format, data.data() + from * bytes, cols, values.data() + row * cols);
  }
  return values;
}

absl::StatusOr<AdapterFiles> ReadAdapterFiles(const std::string& path, const AdapterTargets& targets,
                                              int32_t rank_max) {
  HYDRANT_ASSIGN_OR_RETURN(const WeightDirectory directory, WeightDirectory::Open(path));
  AdapterFiles files;
  HYDRANT_ASSIGN_OR_RETURN(files.config, directory.Read(kAdapterConfig, kConfigBytesMax));
  HYDRANT_ASSIGN_OR_RETURN(files.weights,
                           directory.Read(kAdapterWeights, static_cast<size_t>(targets.FileBytesMax(rank_max))));
  return files;
}

absl::StatusOr<Adapter> ParseAdapter(AdapterFiles files, const AdapterTargets& targets, int32_t rank_max) {
  HYDRANT_ASSIGN_OR_RETURN(const JsonDocument document,
                           JsonDocument::Parse(files.config, kConfigLimits, kAdapterConfig));
  Config config;
  HYDRANT_RETURN_IF_ERROR(config.Read(document.root()));
  Adapter adapter;
  adapter.weights = std::make_shared<const std::string>(std::move(files.weights));
  HYDRANT_ASSIGN_OR_RETURN(const std::vector<RawTensor> tensors, ParseSafetensors(*adapter.weights, kAdapterWeights));
  HYDRANT_ASSIGN_OR_RETURN(const auto modules, ModulesOf(tensors));
  adapter.base_model = config.base_model;
  for (const auto& [name, module] : modules) {
    HYDRANT_RETURN_IF_ERROR(AddChanges(config, name, module, targets, rank_max, adapter));
  }
  if (adapter.changes.empty()) return FileError(kAdapterWeights, "", "has no tensors");
  return adapter;
}

}  // namespace hydrant
