#include "model/weights/weights.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "model/text/str_cat.h"
#include "model/weights/key_balance.h"

namespace hydrant {
namespace {

// Rows of a tensor, which lie in a weight after those of the pieces before.
struct Piece {
  const TensorSource* source;
  int64_t first_row, rows;
};

// Calls read(source, from, to) for every piece that rows [begin, end) of the weight lie in.
template <typename Read>
void ForEachPiece(const std::vector<Piece>& pieces, int64_t begin, int64_t end, const Read& read) {
  int64_t piece_begin = 0;
  for (const Piece& piece : pieces) {
    const int64_t from = std::max(begin, piece_begin);
    const int64_t to = std::min(end, piece_begin + piece.rows);
    if (from < to) read(*piece.source, piece.first_row + from - piece_begin, piece.first_row + to - piece_begin);
    piece_begin += piece.rows;
  }
}

WeightRows RowsOf(const std::vector<Piece>& pieces) {
  return WeightRows(
      [pieces](int64_t begin, int64_t end, float* out) {
        ForEachPiece(pieces, begin, end, [&out](const TensorSource& source, int64_t from, int64_t to) {
          source.ReadRows(from, to, out);
          source.ReturnRows(from, to);
          out += (to - from) * source.cols();
        });
      },
      [pieces](int64_t begin, int64_t end, std::byte* out) {
        ForEachPiece(pieces, begin, end, [&out](const TensorSource& source, int64_t from, int64_t to) {
          source.ReadStoredRows(from, to, out);
          source.ReturnRows(from, to);
          out += (to - from) * RowBytes(source.format(), source.cols());
        });
      });
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, Device& device, Weights& weights)
      : config_(checkpoint.config), tensors_(checkpoint.tensors), device_(device), weights_(weights) {}

  void ReadAhead(const PlannedWeight& planned) const {
    for (const Piece& piece : PiecesOf(planned)) piece.source->ReadAhead();
  }

  // From now on matrices are made in pieces, if `first_of` has their first pieces.
  void UsePieces(WeightStream& stream, int64_t piece_bytes_max, std::map<const PlannedWeight*, int32_t> first_of) {
    stream_ = &stream;
    piece_bytes_max_ = piece_bytes_max;
    first_of_ = std::move(first_of);
  }

  std::unique_ptr<LinearWeight> Matrix(const PlannedWeight& planned) {
    if (const auto first = first_of_.find(&planned); first != first_of_.end()) {
      return device_.MakeLinearInPieces(planned.Spec(), Bias(planned), *stream_, first->second, piece_bytes_max_);
    }
    const std::vector<Piece> pieces = PiecesOf(planned);
    std::unique_ptr<LinearWeight> weight = device_.MakeLinear(planned.Spec(), RowsOf(pieces), Bias(planned));
    // Else the process would hold the whole file beside what it is packed into.
    for (const Piece& piece : pieces) piece.source->ReturnMemory();
    return weight;
  }

  // Packs all pieces of a matrix and writes them.
  absl::Status Write(const PlannedWeight& planned, LinearWeight& weight, WeightImageWriter& writer) {
    const std::vector<Piece> sources = PiecesOf(planned);
    const WeightRows rows = RowsOf(sources);
    const std::vector<int64_t> bytes = device_.PieceBytes(planned.Spec(), piece_bytes_max_);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const std::span<std::byte> room = stream_->Room(first_of_.at(&planned) + static_cast<int32_t>(i));
      device_.PackPiece(weight, static_cast<int32_t>(i), rows);
      const std::span<std::byte> padding = room.subspan(static_cast<size_t>(bytes[i]));
      std::fill(padding.begin(), padding.end(), std::byte{0});
      if (absl::Status status = writer.Write(room); !status.ok()) return status;
    }
    for (const Piece& source : sources) source.source->ReturnMemory();
    return absl::OkStatus();
  }

  // A norm without weights multiplies by 1.
  NormWeight Norm(TensorRole weight, std::optional<TensorRole> bias, int32_t layer) {
    const TensorSource* source = tensors_.Find(weight, layer);
    return NormWeight{.kind = config_.norm,
                      .weight = source != nullptr ? Vector(source, config_.norm_offset)
                                                  : Upload(std::vector<float>(static_cast<size_t>(config_.hidden), 1)),
                      .bias = bias.has_value() ? Vector(tensors_.Find(*bias, layer)) : nullptr,
                      .eps = config_.norm_eps};
  }

  NormWeight HeadNorm(TensorRole weight, int32_t layer) {
    return NormWeight{.kind = NormKind::kRms,
                      .weight = Vector(tensors_.Find(weight, layer), config_.norm_offset),
                      .eps = config_.norm_eps};
  }

  // HeadNorms::balance of the layer whose product is `planned`.
  const float* Balance(const PlannedWeight& planned) {
    assert(planned.role == WeightRole::kQkv);
    const int32_t layer = planned.layer;
    const auto first = static_cast<size_t>(config_.q_cols()), keys = static_cast<size_t>(config_.kv_cols());
    std::vector<float> rows(keys * static_cast<size_t>(planned.cols)), norm, norm_bias;
    RowsOf(PiecesOf(planned)).fp32(config_.q_cols(), config_.q_cols() + config_.kv_cols(), rows.data());
    if (config_.norms_inputs()) {
      norm = Host(tensors_.Find(TensorRole::kAttentionNorm, layer), config_.norm_offset);
      norm_bias = Host(tensors_.Find(TensorRole::kAttentionNormBias, layer));
    }
    const std::vector<float> bias = Bias(planned);
    const std::vector<float> head_norm = Host(tensors_.Find(TensorRole::kKNorm, layer), config_.norm_offset);
    const std::vector<float> sizes =
        KeySizes({.rows = rows,
                  .cols = planned.cols,
                  .bias = bias.empty() ? std::span<const float>() : std::span(bias).subspan(first, keys),
                  .norm_weight = norm,
                  .norm_bias = norm_bias,
                  .head_norm = head_norm});
    return Upload(KeyBalance(sizes, config_.head_dim, config_.rope_dims));
  }

  // [query_heads]; null: the layer has none.
  const float* Sinks(int32_t layer) { return Vector(tensors_.Find(TensorRole::kSinks, layer)); }

 private:
  std::vector<Piece> PiecesOf(const PlannedWeight& planned) const {
    std::vector<Piece> pieces;
    for (const WeightPart& part : planned.parts) {
      pieces.push_back({tensors_.Find(part.tensor, planned.layer, planned.expert), part.first_row, part.rows});
    }
    return pieces;
  }

  // Zeros stand for a part without a bias; empty when no part has one.
  std::vector<float> Bias(const PlannedWeight& planned) {
    if (!planned.biased()) return {};
    std::vector<float> bias(static_cast<size_t>(planned.rows()), 0.0f);
    float* out = bias.data();
    for (const WeightPart& part : planned.parts) {
      if (part.bias.has_value()) tensors_.Find(*part.bias, planned.layer, planned.expert)->ReadRows(0, 1, out);
      out += part.rows;
    }
    return bias;
  }

  // Empty without a source.
  static std::vector<float> Host(const TensorSource* source, float offset = 0) {
    if (source == nullptr) return {};
    std::vector<float> host(static_cast<size_t>(source->cols()));
    source->ReadRows(0, 1, host.data());
    for (float& value : host) value += offset;
    return host;
  }

  const float* Vector(const TensorSource* source, float offset = 0) {
    return source != nullptr ? Upload(Host(source, offset)) : nullptr;
  }

  const float* Upload(const std::vector<float>& host) {
    weights_.vectors.push_back(device_.Allocate(host.size() * sizeof(float)));
    device_.CopyToDevice(weights_.vectors.back()->data(), host.data(), host.size() * sizeof(float));
    return static_cast<const float*>(weights_.vectors.back()->data());
  }

  const ModelConfig& config_;
  const TensorTable& tensors_;
  Device& device_;
  Weights& weights_;
  WeightStream* stream_ = nullptr;  // null: all matrices lie in memory
  int64_t piece_bytes_max_ = 0;
  std::map<const PlannedWeight*, int32_t> first_of_;
};

// The matrices of a layer's experts, until all are there.
struct LoadedExperts {
  Experts::Matrices up, down;
};

// What is read from the disk while something before it is packed: enough to keep a disk busy, and little beside a model, which may
// be larger than what the system keeps of a file.
constexpr int64_t kAheadBytes = int64_t{64} << 20;

// Where a matrix goes.
std::unique_ptr<LinearWeight>& Place(Weights& weights, std::vector<LoadedExperts>& experts,
                                     const PlannedWeight& planned) {
  const auto layer = static_cast<size_t>(planned.layer), expert = static_cast<size_t>(planned.expert);
  switch (planned.role) {
    case WeightRole::kEmbedding:
      return weights.embedding;
    case WeightRole::kOwnHead:
      return weights.own_head;
    case WeightRole::kProjectIn:
      return weights.project_in;
    case WeightRole::kProjectOut:
      return weights.project_out;
    case WeightRole::kPositions:
      return weights.positions;
    case WeightRole::kQkv:
      return weights.layers[layer].qkv;
    case WeightRole::kO:
      return weights.layers[layer].o;
    case WeightRole::kUp:
      return weights.layers[layer].up;
    case WeightRole::kRouter:
      return weights.layers[layer].router;
    case WeightRole::kExpertUp:
      return experts[layer].up[expert];
    case WeightRole::kExpertDown:
      return experts[layer].down[expert];
    case WeightRole::kDown:
      break;
  }
  return weights.layers[layer].down;
}

void MakeRopes(const ModelConfig& config, Device& device, int32_t positions_max, Weights& weights) {
  RopeSpec spec{.dims = config.rope_dims,
                .inv_freq = config.rope_frequencies(positions_max),
                .attention_factor = config.rope_attention_factor,
                .positions_max = positions_max};
  weights.rope = device.MakeRope(spec);
  if (!config.windowed_inv_freq.empty()) {
    spec.inv_freq = config.windowed_inv_freq;
    spec.attention_factor = 1;
    weights.windowed_rope = device.MakeRope(spec);
  }
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    if (!config.unrotated_layers.empty() && config.unrotated_layers[i]) continue;
    const bool windowed = weights.windowed_rope != nullptr && config.windowed_layers[i];
    weights.layers[i].rope = windowed ? weights.windowed_rope.get() : weights.rope.get();
  }
}

// Makes what the plan lists, and the norms.
void Load(const ModelConfig& config, Device& device, const WeightPlan& plan, Loader& loader, Weights& weights,
          const LoadProgress& progress) {
  using enum TensorRole;
  weights.experts_per_token = config.experts_per_token;
  weights.quantised_cols_max = plan.quantised_cols_max();
  weights.layers.resize(static_cast<size_t>(config.layers));
  const auto experts_count = static_cast<size_t>(config.experts);
  std::vector<LoadedExperts> experts(weights.layers.size());
  for (LoadedExperts& layer : experts) {
    layer.up.resize(experts_count);
    layer.down.resize(experts_count);
  }
  int64_t total_bytes = 0, loaded_bytes = 0, ahead_bytes = 0;
  for (const PlannedWeight& planned : plan.weights) total_bytes += planned.bytes;
  if (progress) progress(0, total_bytes);
  auto ahead = plan.weights.begin();  // the first one that is not read ahead
  for (const PlannedWeight& planned : plan.weights) {
    for (; weights.stream == nullptr && ahead != plan.weights.end() && ahead_bytes < kAheadBytes; ++ahead) {
      loader.ReadAhead(*ahead);
      ahead_bytes += ahead->bytes;
    }
    std::unique_ptr<LinearWeight>& place = Place(weights, experts, planned);
    assert(place == nullptr);
    if (planned.role == WeightRole::kQkv && plan.balance_keys) {
      weights.layers[static_cast<size_t>(planned.layer)].head_norms.balance = loader.Balance(planned);
    }
    place = loader.Matrix(planned);
    assert(static_cast<int64_t>(place->bytes()) == planned.bytes);
    ahead_bytes -= planned.bytes;
    loaded_bytes += planned.bytes;
    if (progress) progress(loaded_bytes, total_bytes);
  }
  for (size_t i = 0; experts_count > 0 && i < experts.size(); ++i) {
    weights.layers[i].experts = device.MakeExperts(std::move(experts[i].up), std::move(experts[i].down));
  }
  weights.final_norm = loader.Norm(kFinalNorm, kFinalNormBias, 0);
  for (int32_t i = 0; i < config.layers; ++i) {
    LayerWeights& layer = weights.layers[static_cast<size_t>(i)];
    layer.head_norms.q = loader.HeadNorm(kQNorm, i);
    layer.head_norms.k = loader.HeadNorm(kKNorm, i);
    layer.head_norms.over_heads = config.norms_over_heads;
    layer.sinks = loader.Sinks(i);
    if (config.norm_place != NormPlace::kAfter) {
      layer.attention_norm = loader.Norm(kAttentionNorm, kAttentionNormBias, i);
      layer.mlp_norm = loader.Norm(kMlpNorm, kMlpNormBias, i);
    }
    if (!config.norms_outputs()) continue;
    layer.attention_out_norm = loader.Norm(kAttentionOutNorm, {}, i);
    layer.mlp_out_norm = loader.Norm(kMlpOutNorm, {}, i);
  }
  if (config.position_rows == 0) MakeRopes(config, device, plan.positions_max, weights);
}

// The matrices of a pass in the order in which they are multiplied, after the embedding table where it is no head.
std::vector<const PlannedWeight*> PassOrder(const WeightPlan& plan) {
  std::vector<const PlannedWeight*> order;
  bool own_head = false;
  for (const PlannedWeight& planned : plan.weights) {
    if (planned.role == WeightRole::kOwnHead) own_head = true;
    if (planned.role != WeightRole::kPositions) order.push_back(&planned);
  }
  const auto rank = [own_head](const PlannedWeight* planned) {
    switch (planned->role) {
      case WeightRole::kEmbedding:
        return own_head ? 0 : 4;
      case WeightRole::kProjectIn:
        return 1;
      case WeightRole::kProjectOut:
        return 3;
      case WeightRole::kOwnHead:
        return 4;
      default:
        return 2;
    }
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const PlannedWeight* a, const PlannedWeight* b) { return rank(a) < rank(b); });
  return order;
}

// How much of each file is looked at, and how often. A file that changes is written anew, or else it has another time.
constexpr size_t kSampleBytes = 4096, kSampleEvery = 4 << 20;

// All that an image depends on, in words: the files, and what becomes of each of their tensors.
std::string ImageIdentity(const Checkpoint& checkpoint, const Device& device, const WeightPlan& plan) {
  std::string text = StrCat("packed as ", device.weight_layout(), "\n");
  for (const std::unique_ptr<MappedFile>& file : checkpoint.files) {
    const std::string_view bytes = file->bytes();
    uint64_t sum = 0;
    for (size_t at = 0; at + kSampleBytes <= bytes.size(); at += at == 0 ? kSampleBytes : kSampleEvery) {
      sum = std::rotl(sum, 7) ^ ImageChecksum(std::as_bytes(std::span(bytes.substr(at, kSampleBytes))));
    }
    ReturnMemory(bytes);
    text += StrCat("file ", file->name(), " ", bytes.size(), " ", file->modified_ns(), " ", sum, "\n");
  }
  for (const PlannedWeight& planned : plan.weights) {
    text +=
        StrCat(static_cast<int>(planned.role), " ", planned.layer, " ", planned.cols, planned.gated ? " gated" : "");
    for (const WeightPart& part : planned.parts) {
      text += StrCat(" ", static_cast<int>(part.tensor), " ", part.first_row, " ", part.rows, " ",
                     InfoOf(part.stored).name, " ", InfoOf(part.computed).name);
    }
    text += "\n";
  }
  return text;
}

bool IsToBeWritten(const absl::Status& opened) {
  return absl::IsNotFound(opened) || absl::IsFailedPrecondition(opened);
}

}  // namespace

size_t Weights::step_bytes() const {
  size_t bytes = head().bytes();
  if (project_in != nullptr) bytes += project_in->bytes() + project_out->bytes();
  for (const LayerWeights& layer : layers) {
    bytes += layer.qkv->bytes() + layer.o->bytes();
    if (layer.router == nullptr) {
      bytes += layer.up->bytes() + layer.down->bytes();
      continue;
    }
    const Experts::Matrices &up = layer.experts->up(), &down = layer.experts->down();
    size_t experts = 0;
    for (size_t i = 0; i < up.size(); ++i) experts += up[i]->bytes() + down[i]->bytes();
    // They may be in several formats: a token reads so many of the mean.
    bytes += layer.router->bytes() + experts / up.size() * static_cast<size_t>(experts_per_token);
  }
  return bytes;
}

Weights LoadWeights(const Checkpoint& checkpoint, Device& device, const WeightPlan& plan,
                    const LoadProgress& progress) {
  Weights weights;
  Loader loader(checkpoint, device, weights);
  Load(checkpoint.config, device, plan, loader, weights, progress);
  return weights;
}

absl::StatusOr<Weights> StreamWeights(const Checkpoint& checkpoint, Device& device, const WeightPlan& plan,
                                      const StreamOptions& options, const LoadProgress& progress) {
  if (device.weight_layout().empty()) {
    return absl::UnimplementedError(StrCat(device.name(), " cannot multiply weights that are streamed"));
  }
  if (checkpoint.config.experts > 0) {
    return absl::UnimplementedError("the weights of experts cannot be streamed");
  }
  const int64_t piece_bytes_max = StreamPlan::PieceBytesMax(options.memory_bytes);
  const std::vector<const PlannedWeight*> order = PassOrder(plan);
  StreamPieces pieces;
  std::map<const PlannedWeight*, int32_t> first_of;
  for (const PlannedWeight* planned : order) {
    first_of[planned] = static_cast<int32_t>(pieces.bytes.size());
    const LinearSpec spec = planned->Spec();
    const std::vector<int64_t> bytes = device.PieceBytes(spec, piece_bytes_max);
    pieces.bytes.insert(pieces.bytes.end(), bytes.begin(), bytes.end());
    // A table that is no head is only read by rows.
    const bool table = planned->role == WeightRole::kEmbedding;
    pieces.in_pass.resize(pieces.bytes.size(), !table || checkpoint.config.tied_embeddings);
    if (table) pieces.part_bytes_max = device.RowPartBytes(spec);
  }
  absl::StatusOr<StreamPlan> layout = StreamPlan::Make(pieces, options.memory_bytes);
  if (!layout.ok()) return layout.status();
  Weights weights;
  weights.stream = std::make_unique<WeightStream>(*std::move(layout), device);
  Loader loader(checkpoint, device, weights);
  loader.UsePieces(*weights.stream, piece_bytes_max, std::move(first_of));
  Load(checkpoint.config, device, plan, loader, weights, nullptr);

  const ImageLayout image = {ImageIdentity(checkpoint, device, plan), std::move(pieces.bytes)};
  const auto place = [&](const PlannedWeight& planned) -> LinearWeight& {
    std::vector<LoadedExperts> none;
    return *Place(weights, none, planned);
  };
  absl::StatusOr<std::unique_ptr<WeightImage>> opened = WeightImage::Open(options.image, image);
  if (IsToBeWritten(opened.status())) {
    auto writer = WeightImageWriter::Create(options.image, image);
    if (!writer.ok()) return writer.status();
    opened = WeightImage::Open(options.image, image);  // another process may have written it meanwhile
    int64_t written_bytes = 0;
    if (IsToBeWritten(opened.status())) {
      for (const PlannedWeight* planned : order) {
        if (progress) progress(written_bytes, plan.bytes());
        if (absl::Status status = loader.Write(*planned, place(*planned), **writer); !status.ok()) return status;
        written_bytes += planned->bytes;
      }
      if (absl::Status status = (*writer)->Finish(); !status.ok()) return status;
      opened = WeightImage::Open(options.image, image);
    }
  }
  if (!opened.ok()) return opened.status();
  if (progress) progress(plan.bytes(), plan.bytes());
  if (absl::Status status = weights.stream->Start(*std::move(opened)); !status.ok()) return status;
  return weights;
}

}  // namespace hydrant
