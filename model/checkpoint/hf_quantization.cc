#include "model/checkpoint/hf_quantization.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "model/files/file_error.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

constexpr int32_t kSizeMax = std::numeric_limits<int32_t>::max();

using Keys = std::span<const std::string_view>;

bool IsOneOf(std::string_view name, Keys names) { return std::find(names.begin(), names.end(), name) != names.end(); }

// Every member is one of those that are read, or of those that say how the weights were made and nothing of how they lie there, or
// null.
absl::Status RefuseUnknown(const JsonValue& object, Keys read, Keys without_effect) {
  return object.ForEachMember([&](std::string_view key, const JsonValue& value) {
    if (IsOneOf(key, read) || IsOneOf(key, without_effect) || !object.Find(key)) return absl::OkStatus();
    return value.Error("is not known, and might change what the weights are");
  });
}

// A text that has to be one of `names`, which are in small letters; absent: `otherwise`.
absl::StatusOr<std::string> ReadName(const JsonValue& object, std::string_view key, std::string_view otherwise,
                                     Keys names) {
  const auto field = object.Find(key);
  if (!field) return std::string(otherwise);
  HYDRANT_ASSIGN_OR_RETURN(const std::string_view text, field->String());
  std::string name = absl::AsciiStrToLower(std::string(text));
  if (!IsOneOf(name, names)) {
    return field->Error(Quoted(text), " is not supported; these are: ", Joined(names, ", "));
  }
  return name;
}

// Features that change what weights are, and are off: absent, null, false, or a list or an object without members.
absl::Status RequireOff(const JsonValue& object, Keys keys) {
  for (const std::string_view key : keys) {
    const auto field = object.Find(key);
    if (!field) continue;
    if (const auto flag = field->Bool(); flag.ok() && !*flag) continue;
    bool empty = field->IsArray() ? field->size() == 0 : true;
    const absl::Status is_object = field->ForEachMember([&](std::string_view, const JsonValue&) {
      empty = false;
      return absl::OkStatus();
    });
    if (!empty || (!field->IsArray() && !is_object.ok())) return field->Error("is not supported");
  }
  return absl::OkStatus();
}

// Columns that share a scale: a positive number, or -1 for all.
absl::Status ReadGroupSize(const JsonValue& object, std::string_view key, int32_t& out) {
  const auto field = object.Find(key);
  if (!field) return absl::OkStatus();
  HYDRANT_ASSIGN_OR_RETURN(const int64_t size, field->Int(-1, kSizeMax));
  if (size == 0) return field->Error("0 columns are no group");
  out = size < 0 ? 0 : static_cast<int32_t>(size);
  return absl::OkStatus();
}

absl::Status ReadBits(const JsonValue& object, std::string_view key, std::initializer_list<int32_t> widths,
                      int32_t& out) {
  HYDRANT_ASSIGN_OR_RETURN(const JsonValue field, object.At(key));
  HYDRANT_ASSIGN_OR_RETURN(const int64_t bits, field.Int(0, 64));
  for (const int32_t width : widths) {
    if (bits != width) continue;
    out = width;
    return absl::OkStatus();
  }
  return field.Error("weights of ", bits, " bits are not supported");
}

// ---- compressed-tensors ---------------------------------------------------------------------------------------------------------

constexpr std::string_view kPacked = "pack-quantized", kIntegers = "int-quantized", kFloats = "float-quantized",
                           kNaive = "naive-quantized";
constexpr std::string_view kFormats[] = {kPacked, kIntegers, kFloats, kNaive};

constexpr std::string_view kArgumentKeys[] = {"num_bits", "type",    "symmetric",       "group_size",
                                              "strategy", "dynamic", "block_structure", "actorder"};
constexpr std::string_view kArgumentsWithoutEffect[] = {"observer", "observer_kwargs", "scale_dtype", "zp_dtype"};

// Kernels round activations in their own way. What a checkpoint was made for may not be coarser, or it would answer otherwise
// than its makers saw.
absl::Status CheckActivations(const JsonValue& scheme) {
  constexpr std::string_view kOutputs[] = {"output_activations"};
  HYDRANT_RETURN_IF_ERROR(RequireOff(scheme, kOutputs));
  const auto activations = scheme.Find("input_activations");
  if (!activations) return absl::OkStatus();
  HYDRANT_RETURN_IF_ERROR(RefuseUnknown(*activations, kArgumentKeys, kArgumentsWithoutEffect));
  HYDRANT_ASSIGN_OR_RETURN(const JsonValue field, activations->At("num_bits"));
  HYDRANT_ASSIGN_OR_RETURN(const int64_t bits, field.Int(0, 64));
  return bits == 8 || bits == 16 ? absl::OkStatus() : field.Error("activations of ", bits, " bits are not supported");
}

absl::Status ReadBlock(const JsonValue& field, HfQuantization& out) {
  if (!field.IsArray() || field.size() != 2) return field.Error("is no list of two sizes");
  HYDRANT_ASSIGN_OR_RETURN(const int64_t rows, field[0].Int(1, kSizeMax));
  HYDRANT_ASSIGN_OR_RETURN(const int64_t cols, field[1].Int(1, kSizeMax));
  out.group_rows = static_cast<int32_t>(rows);
  out.group_cols = static_cast<int32_t>(cols);
  return absl::OkStatus();
}

// What a scale is of.
absl::Status ReadStrategy(const JsonValue& weights, HfQuantization& out) {
  HYDRANT_RETURN_IF_ERROR(ReadGroupSize(weights, "group_size", out.group_cols));
  const auto size = weights.Find("group_size");
  // As compressed-tensors has it where nothing is said.
  const std::string_view silent = !size ? "tensor" : out.group_cols == 0 ? "channel" : "group";
  constexpr std::string_view kStrategies[] = {"tensor", "channel", "group", "block"};
  HYDRANT_ASSIGN_OR_RETURN(const std::string strategy, ReadName(weights, "strategy", silent, kStrategies));
  const bool grouped = out.group_cols != 0;
  if (grouped != (strategy == "group")) {
    if (grouped) return size->Error("there are no groups where the strategy is '", strategy, "'");
    return weights.Error("has groups and no group_size");
  }
  const auto block = weights.Find("block_structure");
  if (block.has_value() != (strategy == "block")) {
    return weights.Error("strategy 'block' and block_structure belong together");
  }
  if (strategy == "tensor") out.group_rows = 0;
  return block ? ReadBlock(*block, out) : absl::OkStatus();
}

absl::Status ReadActOrder(const JsonValue& weights, HfQuantization& out) {
  const auto field = weights.Find("actorder");
  if (!field) return absl::OkStatus();
  if (const auto flag = field->Bool(); flag.ok()) {
    out.group_index = *flag;
    return absl::OkStatus();
  }
  // Groups of columns after each other, whatever their order was in the search, are "weight" and "static".
  constexpr std::string_view kOrders[] = {"weight", "static", "group", "dynamic"};
  HYDRANT_ASSIGN_OR_RETURN(const std::string order, ReadName(weights, "actorder", "", kOrders));
  out.group_index = order == "group" || order == "dynamic";
  return absl::OkStatus();
}

absl::StatusOr<HfQuantization> ReadScheme(const JsonValue& scheme, std::string_view format_of_all) {
  HfQuantization out{.method = Quantization::kCompressedTensors};
  if (scheme.IsArray()) return scheme.Error("schemes by name are not supported");
  constexpr std::string_view kKeys[] = {"weights", "input_activations", "output_activations", "format"};
  constexpr std::string_view kWithoutEffect[] = {"targets"};  // which layers are quantised is seen by their tensors
  HYDRANT_RETURN_IF_ERROR(RefuseUnknown(scheme, kKeys, kWithoutEffect));
  HYDRANT_ASSIGN_OR_RETURN(const std::string format, ReadName(scheme, "format", format_of_all, kFormats));
  HYDRANT_RETURN_IF_ERROR(CheckActivations(scheme));
  HYDRANT_ASSIGN_OR_RETURN(const JsonValue weights, scheme.At("weights"));
  HYDRANT_RETURN_IF_ERROR(RefuseUnknown(weights, kArgumentKeys, kArgumentsWithoutEffect));
  constexpr std::string_view kDynamic[] = {"dynamic"};
  HYDRANT_RETURN_IF_ERROR(RequireOff(weights, kDynamic));
  constexpr std::string_view kInt[] = {"int"}, kFloat[] = {"float"}, kEither[] = {"int", "float"};
  const Keys types = format == kFloats ? Keys(kFloat) : format == kNaive ? Keys(kEither) : Keys(kInt);
  HYDRANT_ASSIGN_OR_RETURN(const std::string type, ReadName(weights, "type", "int", types));
  out.fp8 = type == "float";
  out.packing = format == kPacked ? HfPacking::kPacked : HfPacking::kBytes;
  if (format == kPacked) {
    HYDRANT_RETURN_IF_ERROR(ReadBits(weights, "num_bits", {4, 8}, out.bits));
  } else {
    HYDRANT_RETURN_IF_ERROR(ReadBits(weights, "num_bits", {8}, out.bits));
  }
  HYDRANT_RETURN_IF_ERROR(weights.Read("symmetric", out.symmetric));
  if (!out.symmetric && format != kPacked) {
    return weights.Find("symmetric")->Error("zero points are not supported in ", format);
  }
  HYDRANT_RETURN_IF_ERROR(ReadStrategy(weights, out));
  if (!out.symmetric && out.group_rows == 0) return weights.Error("a zero point of a whole tensor is not supported");
  HYDRANT_RETURN_IF_ERROR(ReadActOrder(weights, out));
  if (out.group_index && out.group_cols == 0) return weights.Find("actorder")->Error("there are no groups to order");
  return out;
}

bool SameStorage(const HfQuantization& a, const HfQuantization& b) {
  return a.packing == b.packing && a.bits == b.bits && a.fp8 == b.fp8 && a.symmetric == b.symmetric &&
         a.group_index == b.group_index && a.group_cols == b.group_cols && a.group_rows == b.group_rows;
}

absl::StatusOr<HfQuantization> ReadCompressedTensors(const JsonValue& config) {
  constexpr std::string_view kKeys[] = {
      "quant_method",    "format",          "config_groups",    "quantization_status",
      "kv_cache_scheme", "sparsity_config", "transform_config", "moe_sparsity_config",
  };
  constexpr std::string_view kWithoutEffect[] = {
      "ignore", "global_compression_ratio", "version", "run_compressed", "dequantize", "use_optimized_inference",
  };
  HYDRANT_RETURN_IF_ERROR(RefuseUnknown(config, kKeys, kWithoutEffect));
  constexpr std::string_view kOff[] = {"kv_cache_scheme", "transform_config", "moe_sparsity_config"};
  HYDRANT_RETURN_IF_ERROR(RequireOff(config, kOff));
  if (const auto sparsity = config.Find("sparsity_config")) {
    constexpr std::string_view kDense[] = {"dense"};
    HYDRANT_RETURN_IF_ERROR(ReadName(*sparsity, "format", "dense", kDense).status());
  }
  constexpr std::string_view kStatus[] = {"compressed",
                                          "frozen"};  // the second is what older tools wrote for the first
  HYDRANT_RETURN_IF_ERROR(ReadName(config, "quantization_status", "compressed", kStatus).status());
  HYDRANT_RETURN_IF_ERROR(config.At("format").status());
  HYDRANT_ASSIGN_OR_RETURN(const std::string format, ReadName(config, "format", "", kFormats));
  HYDRANT_ASSIGN_OR_RETURN(const JsonValue groups, config.At("config_groups"));
  std::optional<HfQuantization> found;
  HYDRANT_RETURN_IF_ERROR(groups.ForEachMember([&](std::string_view, const JsonValue& scheme) -> absl::Status {
    HYDRANT_ASSIGN_OR_RETURN(const HfQuantization read, ReadScheme(scheme, format));
    if (found && !SameStorage(*found, read)) {
      return scheme.Error("differs from the group before it; layers that are quantised differently are not supported");
    }
    found = read;
    return absl::OkStatus();
  }));
  if (!found) return groups.Error("is empty");
  return *found;
}

// ---- GPTQ, AWQ, FP8 ---------------------------------------------------------------------------------------------------------------

constexpr std::string_view kTuningWithoutEffect[] = {
    // AutoGPTQ, GPTQModel, optimum
    "damp_percent",
    "damp_auto_increment",
    "static_groups",
    "true_sequential",
    "act_group_aware",
    "mse",
    "meta",
    "model_name_or_path",
    "model_file_base_name",
    "model_seqlen",
    "max_input_length",
    "block_name_to_quantize",
    "module_name_preceding_first_block",
    "modules_in_block_to_quantize",
    "modules_to_not_convert",
    "batch_size",
    "pad_token_id",
    "cache_block_outputs",
    "tokenizer",
    "dataset",
    "use_cuda_fp16",
    "use_exllama",
    "disable_exllama",
    "exllama_config",
    "lm_head",
    "quantizer",
    "ignore",
    // AutoAWQ
    "do_fuse",
    "fuse_max_seq_len",
    "modules_to_fuse",
    // AutoRound
    "amp",
    "autoround_version",
    "enable_minmax_tuning",
    "enable_norm_bias_tuning",
    "enable_quanted_input",
    "gradient_accumulate_steps",
    "iters",
    "low_gpu_mem_usage",
    "lr",
    "minmax_lr",
    "nsamples",
    "seqlen",
    "train_bs",
    "use_quant_input",
    "scale_dtype",
};

// Features of GPTQModel and its kin that would change what the weights are.
constexpr std::string_view kMustBeOff[] = {"dynamic", "adapter", "rotation", "is_marlin_format"};

absl::StatusOr<HfQuantization> ReadGptq(const JsonValue& config) {
  constexpr std::string_view kKeys[] = {
      "quant_method",      "bits",     "group_size",       "desc_act",   "sym",
      "checkpoint_format", "format",   "method",           "pack_dtype", "dynamic",
      "adapter",           "rotation", "is_marlin_format", "backend",    "data_type",
  };
  HYDRANT_RETURN_IF_ERROR(RefuseUnknown(config, kKeys, kTuningWithoutEffect));
  HYDRANT_RETURN_IF_ERROR(RequireOff(config, kMustBeOff));
  HfQuantization out{.method = Quantization::kGptq, .packing = HfPacking::kGptq};
  HYDRANT_RETURN_IF_ERROR(ReadBits(config, "bits", {4, 8}, out.bits));
  HYDRANT_RETURN_IF_ERROR(config.At("group_size").status());
  HYDRANT_RETURN_IF_ERROR(ReadGroupSize(config, "group_size", out.group_cols));
  HYDRANT_RETURN_IF_ERROR(config.Read("desc_act", out.group_index));
  out.symmetric = false;  // unless it is said, zero points may be any
  HYDRANT_RETURN_IF_ERROR(config.Read("sym", out.symmetric));
  constexpr std::string_view kWords[] = {"int32"}, kInt[] = {"int"}, kMethods[] = {"gptq"};
  HYDRANT_RETURN_IF_ERROR(ReadName(config, "pack_dtype", "int32", kWords).status());
  HYDRANT_RETURN_IF_ERROR(ReadName(config, "data_type", "int", kInt).status());
  HYDRANT_RETURN_IF_ERROR(ReadName(config, "method", "gptq", kMethods).status());
  constexpr std::string_view kVersions[] = {"gptq", "gptq_v2"};
  HYDRANT_ASSIGN_OR_RETURN(const std::string later, ReadName(config, "format", "gptq", kVersions));
  HYDRANT_ASSIGN_OR_RETURN(const std::string version, ReadName(config, "checkpoint_format", later, kVersions));
  if (config.Find("format") && version != later) {
    return config.Find("format")->Error("contradicts checkpoint_format ", Quoted(version));
  }
  // The first version stores zero points less one.
  out.zero_offset = version == "gptq" ? 1 : 0;
  return out;
}

// A number that goes by one of two names.
absl::StatusOr<std::string_view> NameThatIsThere(const JsonValue& config, std::string_view name,
                                                 std::string_view older) {
  const std::string_view found = config.Find(older) ? older : name;
  if (config.Find(name) && config.Find(older)) return config.Find(older)->Error("is there beside ", name);
  HYDRANT_RETURN_IF_ERROR(config.At(found).status());
  return found;
}

absl::StatusOr<HfQuantization> ReadAwq(const JsonValue& config) {
  constexpr std::string_view kKeys[] = {
      "quant_method", "bits",    "w_bit",   "group_size",        "q_group_size", "zero_point",
      "version",      "format",  "method",  "checkpoint_format", "sym",          "desc_act",
      "pack_dtype",   "backend", "dynamic", "adapter",           "rotation",     "is_marlin_format",
  };
  HYDRANT_RETURN_IF_ERROR(RefuseUnknown(config, kKeys, kTuningWithoutEffect));
  HYDRANT_RETURN_IF_ERROR(RequireOff(config, kMustBeOff));
  constexpr std::string_view kOrder[] = {"desc_act"};
  HYDRANT_RETURN_IF_ERROR(RequireOff(config, kOrder));
  HfQuantization out{.method = Quantization::kAwq, .packing = HfPacking::kAwq, .symmetric = false};
  HYDRANT_ASSIGN_OR_RETURN(const std::string_view bits, NameThatIsThere(config, "bits", "w_bit"));
  HYDRANT_RETURN_IF_ERROR(ReadBits(config, bits, {4}, out.bits));
  HYDRANT_ASSIGN_OR_RETURN(const std::string_view size, NameThatIsThere(config, "group_size", "q_group_size"));
  HYDRANT_RETURN_IF_ERROR(ReadGroupSize(config, size, out.group_cols));
  bool has_zeros = true;
  HYDRANT_RETURN_IF_ERROR(config.Read("zero_point", has_zeros));
  if (!has_zeros) return config.Find("zero_point")->Error("AWQ without zero points is not supported");
  constexpr std::string_view kVersions[] = {"gemm"}, kWords[] = {"int32"}, kMethods[] = {"awq"};
  constexpr std::string_view kBackends[] = {"autoawq", "auto", "gptqmodel"};  // "llm-awq" packs otherwise
  for (const std::string_view key : {"version", "format", "checkpoint_format"}) {
    HYDRANT_RETURN_IF_ERROR(ReadName(config, key, "gemm", kVersions).status());
  }
  HYDRANT_RETURN_IF_ERROR(ReadName(config, "pack_dtype", "int32", kWords).status());
  HYDRANT_RETURN_IF_ERROR(ReadName(config, "method", "awq", kMethods).status());
  HYDRANT_RETURN_IF_ERROR(ReadName(config, "backend", "auto", kBackends).status());
  return out;
}

absl::StatusOr<HfQuantization> ReadFp8(const JsonValue& config) {
  constexpr std::string_view kKeys[] = {"quant_method",      "weight_block_size", "fmt",
                                        "activation_scheme", "scale_fmt",         "expert_dtype"};
  constexpr std::string_view kWithoutEffect[] = {"modules_to_not_convert", "ignored_layers", "modules_to_convert",
                                                 "dequantize"};
  HYDRANT_RETURN_IF_ERROR(RefuseUnknown(config, kKeys, kWithoutEffect));
  HfQuantization out{.method = Quantization::kFp8, .packing = HfPacking::kBytes, .fp8 = true, .group_rows = 0};
  constexpr std::string_view kFp8Formats[] = {"e4m3"}, kScalings[] = {"dynamic", "static"}, kExpertTypes[] = {"fp8"},
                             kScaleTypes[] = {"float", "ue8m0"};
  HYDRANT_RETURN_IF_ERROR(ReadName(config, "fmt", "e4m3", kFp8Formats).status());
  HYDRANT_RETURN_IF_ERROR(ReadName(config, "activation_scheme", "dynamic", kScalings).status());
  HYDRANT_RETURN_IF_ERROR(ReadName(config, "expert_dtype", "fp8", kExpertTypes).status());
  HYDRANT_RETURN_IF_ERROR(ReadName(config, "scale_fmt", "float", kScaleTypes).status());
  if (const auto block = config.Find("weight_block_size")) HYDRANT_RETURN_IF_ERROR(ReadBlock(*block, out));
  return out;
}

// The format leaves nothing to say. What `modules_to_not_convert` lists is stored as usual, and is seen by that.
absl::StatusOr<HfQuantization> ReadMxfp4(const JsonValue& config) {
  constexpr std::string_view kKeys[] = {"quant_method"}, kWithoutEffect[] = {"modules_to_not_convert", "dequantize"};
  HYDRANT_RETURN_IF_ERROR(RefuseUnknown(config, kKeys, kWithoutEffect));
  return HfQuantization{.method = Quantization::kMxfp4, .packing = HfPacking::kMxfp4, .bits = 4};
}

}  // namespace

absl::StatusOr<HfQuantization> ReadHfQuantization(const JsonValue& config) {
  const auto newer = config.Find("quantization_config"), older = config.Find("compression_config");
  if (!newer && !older) return HfQuantization{};
  if (newer && older) return older->Error("is there beside quantization_config");
  const JsonValue& field = newer ? *newer : *older;
  HYDRANT_RETURN_IF_ERROR(field.At("quant_method").status());
  constexpr std::string_view kMethods[] = {"compressed-tensors", "gptq", "awq", "fp8", "mxfp4"};
  HYDRANT_ASSIGN_OR_RETURN(const std::string method, ReadName(field, "quant_method", "", kMethods));
  if (method == "gptq") return ReadGptq(field);
  if (method == "awq") return ReadAwq(field);
  if (method == "fp8") return ReadFp8(field);
  if (method == "mxfp4") return ReadMxfp4(field);
  return ReadCompressedTensors(field);
}

}  // namespace hydrant
