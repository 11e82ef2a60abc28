#include "model/checkpoint/hf_rope.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "model/config/rope_scaling.h"
#include "model/files/file_error.h"

namespace hydrant {
namespace {

constexpr int32_t kContextMax = std::numeric_limits<int32_t>::max();

class RopeReader {
 public:
  RopeReader(const JsonValue& root, const HfFamily& family, ModelConfig& config)
      : root_(root), family_(family), config_(config) {}

  // Rotary settings are in `rope_parameters` since transformers 5, before that in `rope_scaling` and beside it.
  absl::Status Run() {
    const auto parameters = root_.Find("rope_parameters");
    auto scaling_field = parameters ? parameters : root_.Find("rope_scaling");
    if (family_.says_rotation && !scaling_field) {
      return FileError("config.json", "'rope_parameters'", "is missing, and so is 'rope_scaling'");
    }
    HYDRANT_RETURN_IF_ERROR(ReadWindowed(parameters));
    // Where windowed layers have settings of their own, each kind of layer has an object.
    if (parameters && !family_.windowed_theta_field.empty() && parameters->Find(kFullLayers)) {
      scaling_field = parameters->Find(kFullLayers);
    }
    const JsonValue& source = scaling_field ? *scaling_field : root_;
    RopeScaling scaling{.theta = family_.theta};
    HYDRANT_RETURN_IF_ERROR(root_.Read(family_.theta_field, scaling.theta));
    double share = family_.rotated_share;
    HYDRANT_RETURN_IF_ERROR(root_.Read(family_.rotated_share_field, share));
    std::string_view kind = "default";
    if (scaling_field) {
      HYDRANT_RETURN_IF_ERROR(source.Read("rope_theta", scaling.theta));
      HYDRANT_RETURN_IF_ERROR(source.Read("partial_rotary_factor", share));
      const auto type = source.Find("rope_type") ? source.Find("rope_type") : source.Find("type");
      if (!type && !parameters) return source.Error("has no rope_type");
      if (type) {
        HYDRANT_ASSIGN_OR_RETURN(kind, type->String());
      }
    }
    if (!(share > 0 && share <= 1))
      return source.Error(family_.rotated_share_field, " ", share, " is not between 0 and 1");
    config_.rope_dims = static_cast<int32_t>(config_.head_dim * share);
    HYDRANT_RETURN_IF_ERROR(ReadRopeKind(source, kind, scaling));
    if (scaling.kind == RopeKind::kYarn) {
      // Configs state the context before stretching.
      const double stretched =
          std::clamp(scaling.original_context * scaling.factor, 0.0, static_cast<double>(kContextMax));
      config_.context = std::max(config_.context, static_cast<int32_t>(stretched));
    }
    return ApplyRopeScaling(
        scaling, "config.json",
        scaling_field ? (parameters ? "'rope_parameters'" : "'rope_scaling'") : Quoted(family_.theta_field), config_);
  }

 private:
  static constexpr std::string_view kFullLayers = "full_attention", kWindowedLayers = "sliding_attention";

  // Windowed layers have frequencies without scaling.
  absl::Status ReadWindowed(const std::optional<JsonValue>& parameters) const {
    if (family_.windowed_theta_field.empty()) return absl::OkStatus();
    double theta = family_.windowed_theta;
    HYDRANT_RETURN_IF_ERROR(root_.Read(family_.windowed_theta_field, theta));
    if (const auto own = parameters ? parameters->Find(kWindowedLayers) : std::nullopt) {
      HYDRANT_RETURN_IF_ERROR(own->Read("rope_theta", theta));
      if (const auto type = own->Find("rope_type")) {
        HYDRANT_ASSIGN_OR_RETURN(const std::string_view kind, type->String());
        if (kind != "default") return type->Error(Quoted(kind), " is not supported for windowed layers (default is)");
      }
    }
    HYDRANT_ASSIGN_OR_RETURN(config_.windowed_inv_freq, PlainFrequencies(theta, config_.head_dim, "config.json",
                                                                         Quoted(family_.windowed_theta_field)));
    return absl::OkStatus();
  }

  absl::Status ReadRopeKind(const JsonValue& source, std::string_view kind, RopeScaling& scaling) const {
    if (kind == "default") return absl::OkStatus();
    if (kind == "linear") {
      scaling.kind = RopeKind::kLinear;
    } else if (kind == "dynamic") {
      scaling.kind = RopeKind::kDynamic;
    } else if (kind == "llama3") {
      scaling.kind = RopeKind::kLlama3;
    } else if (kind == "yarn") {
      scaling.kind = RopeKind::kYarn;
    } else if (kind == "longrope" || kind == "su") {  // the older name
      return ReadLongRope(source, scaling);
    } else {
      return source.Error("rope_type ", Quoted(kind),
                          " is not supported (default, linear, dynamic, llama3, yarn and longrope are)");
    }
    // Old files of Phi call it so: their own code meant one thing by it, and transformers takes it for longrope.
    if (source.Find("long_factor"))
      return source.Error("rope_type ", Quoted(kind), " with a long_factor is not supported");
    scaling.original_context = config_.context;
    HYDRANT_RETURN_IF_ERROR(source.Read("original_max_position_embeddings", scaling.original_context));
    HYDRANT_RETURN_IF_ERROR(root_.Read("original_max_position_embeddings", scaling.original_context));
    if (const auto factor = source.Find("factor")) {
      HYDRANT_ASSIGN_OR_RETURN(scaling.factor, factor->Number());
    } else if (scaling.kind == RopeKind::kYarn && scaling.original_context > 0) {
      scaling.factor = config_.context / scaling.original_context;
    } else {
      return source.Error("has no factor");
    }
    if (scaling.kind == RopeKind::kLlama3) {
      HYDRANT_RETURN_IF_ERROR(source.At("low_freq_factor").status());
      HYDRANT_RETURN_IF_ERROR(source.At("high_freq_factor").status());
    }
    HYDRANT_RETURN_IF_ERROR(source.Read("low_freq_factor", scaling.low_freq_factor));
    HYDRANT_RETURN_IF_ERROR(source.Read("high_freq_factor", scaling.high_freq_factor));
    HYDRANT_RETURN_IF_ERROR(source.Read("beta_fast", scaling.beta_fast));
    HYDRANT_RETURN_IF_ERROR(source.Read("beta_slow", scaling.beta_slow));
    HYDRANT_RETURN_IF_ERROR(source.Read("truncate", scaling.truncate));
    HYDRANT_RETURN_IF_ERROR(ReadOptional(source, "attention_factor", scaling.attention_factor));
    HYDRANT_RETURN_IF_ERROR(ReadOptional(source, "mscale", scaling.mscale));
    return ReadOptional(source, "mscale_all_dim", scaling.mscale_all_dim);
  }

  absl::Status ReadLongRope(const JsonValue& source, RopeScaling& scaling) const {
    scaling.kind = RopeKind::kLongRope;
    for (const std::string_view key : {"short_mscale", "long_mscale"}) {
      if (const auto field = source.Find(key)) return field->Error("is not supported");
    }
    constexpr std::string_view kOriginal = "original_max_position_embeddings";
    if (!source.Find(kOriginal) && !root_.Find(kOriginal)) return source.Error("has no ", kOriginal);
    HYDRANT_RETURN_IF_ERROR(source.Read(kOriginal, scaling.original_context));
    HYDRANT_RETURN_IF_ERROR(root_.Read(kOriginal, scaling.original_context));
    scaling.factor = scaling.original_context > 0 ? config_.context / scaling.original_context : 0;
    HYDRANT_RETURN_IF_ERROR(source.Read("factor", scaling.factor));
    HYDRANT_RETURN_IF_ERROR(ReadFactors(source, "short_factor", scaling.short_factors));
    HYDRANT_RETURN_IF_ERROR(ReadFactors(source, "long_factor", scaling.long_factors));
    return ReadOptional(source, "attention_factor", scaling.attention_factor);
  }

  static absl::Status ReadFactors(const JsonValue& source, std::string_view key, std::vector<double>& out) {
    HYDRANT_ASSIGN_OR_RETURN(const JsonValue list, source.At(key));
    for (size_t i = 0; i < list.size(); ++i) {
      HYDRANT_ASSIGN_OR_RETURN(const double factor, list[i].Number());
      out.push_back(factor);
    }
    return absl::OkStatus();
  }

  static absl::Status ReadOptional(const JsonValue& source, std::string_view key, std::optional<double>& out) {
    const auto field = source.Find(key);
    if (!field) return absl::OkStatus();
    HYDRANT_ASSIGN_OR_RETURN(out, field->Number());
    return absl::OkStatus();
  }

  const JsonValue& root_;
  const HfFamily& family_;
  ModelConfig& config_;
};

}  // namespace

absl::Status ReadHfRope(const JsonValue& root, const HfFamily& family, ModelConfig& config) {
  return RopeReader(root, family, config).Run();
}

}  // namespace hydrant
