// The slow oracle of every op in kernels/device.h: plain loops over dense host arrays, every value a double. Device
// kernels are judged against it; nothing in the served path calls it. The eviction decisions have their own oracle,
// kernels/reference/h2o_reference.h.
//
// Thread: any; pure functions.
//
// Inputs are doubles so that oracles compose without rounding. A test that feeds a kernel rounded inputs (bf16 weights,
// bf16 keys) rounds them with RoundTo first and gives the oracle the same numbers.
#ifndef HYDRANT_KERNELS_REFERENCE_REFERENCE_H_
#define HYDRANT_KERNELS_REFERENCE_REFERENCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "kernels/sampling.h"

namespace hydrant::reference {

using Values = std::vector<double>;
using ValuesView = std::span<const double>;

Values ToDouble(std::span<const float> x);
// What `dtype` stores for x: nearest, ties to even, by way of fp32 as every kernel does.
double RoundTo(DType dtype, double x);
Values RoundTo(DType dtype, ValuesView x);
// What a cache of that type keeps of one token's key or value in one KV head: KvType::kInt8 by its rule (kernels/
// kv_cache_view.h), any other element by element.
Values RoundTo(KvType type, ValuesView head);

// y [n, rows] = x [n, cols] w [rows, cols]^T + bias [rows] (or empty).
Values Linear(ValuesView x, int64_t n, ValuesView w, int64_t rows, int64_t cols, ValuesView bias = {});
// The same sum with every term replaced by its absolute value: a product summed in precision u, in any order, is off by
// at most about (cols + 1) * u * LinearMagnitude.
Values LinearMagnitude(ValuesView x, int64_t n, ValuesView w, int64_t rows, int64_t cols, ValuesView bias = {});
// What an adapter adds to y [n, rows]: scale * b (a x), a [rank, cols], b [rows, rank].
Values Adapted(ValuesView x, int64_t n, ValuesView a, ValuesView b, int64_t rank, double scale, int64_t rows,
               int64_t cols);
double Activate(Activation activation, double x);
// What it is multiplied by, of the up projection beside the gate.
double UpFactor(Activation activation, double up);
// y [n, rows / 2] = activation(x w[0, rows/2)^T + bias) * factor(x w[rows/2, rows)^T + bias); bias [rows] or empty.
Values LinearGated(Activation activation, ValuesView x, int64_t n, ValuesView w, int64_t rows, int64_t cols,
                   ValuesView bias = {});

// What AddExperts adds to y [n, hidden]: x [n, hidden], logits [n, experts], of each expert up [2 ffn, hidden] and down [hidden,
// ffn], and their biases where there are any.
Values Experts(const ExpertRouting& routing, Activation activation, ValuesView x, int64_t n, int64_t hidden,
               ValuesView logits, const std::vector<Values>& up, const std::vector<Values>& down,
               const std::vector<Values>& up_bias = {}, const std::vector<Values>& down_bias = {});

// y [n, cols]; `bias` may be empty.
Values Norm(NormKind kind, ValuesView weight, ValuesView bias, double eps, ValuesView x, int64_t n, int64_t cols);
// y [ids, cols] = table [*, cols] rows.
Values Embed(ValuesView table, int64_t cols, std::span<const int32_t> ids);

// The same plus the rows `positions` [ids] of a second table.
Values Embed(ValuesView table, int64_t cols, std::span<const int32_t> ids, ValuesView position_table,
             std::span<const int64_t> positions);

// x [heads, head_dim] rotated to `position`: element i < dims/2 pairs with i + dims/2; elements from spec.dims on are
// kept.
Values Rope(const RopeSpec& spec, int64_t position, ValuesView x, int64_t heads, int64_t head_dim);

struct AttentionResult {
  Values out;            // [heads, head_dim]
  Values probabilities;  // [heads, slots]
};
// One query token of one KV head's group: q [heads, head_dim] against k, v [slots, head_dim]. softcap and sinks [heads] (or
// empty) as in AttentionSpec.
AttentionResult Attention(ValuesView q, int64_t heads, ValuesView k, ValuesView v, int64_t slots, int64_t head_dim,
                          double scale, double softcap = 0, ValuesView sinks = {});
// cap * tanh(x / cap); cap 0: x.
double SoftCap(double cap, double x);

// --- sampling -------------------------------------------------------------------------------------------------------

// Natural logarithm of softmax(logits).
Values LogSoftmax(ValuesView logits);
// Ids by (value descending, id ascending).
std::vector<int32_t> Ranked(ValuesView values);
// The row after its adjustments, as kernels/sampling.h says.
Values AdjustedLogits(ValuesView logits, const LogitAdjustments& adjustments);
// The distribution a token is drawn from: temperature, then min_p, top_k, top_p as kernels/sampling.h says; 0 for a
// token that a filter dropped. temperature > 0.
Values SamplingDistribution(ValuesView logits, const SamplingParams& params);
// The draw: u in [0, 1) of the Philox stream, then the first id in ascending order whose cumulative probability exceeds
// u. `margin`, when given, receives the distance from u to the nearest bound of the chosen id: below ~1e-6 an fp32
// kernel may rightly choose the neighbour.
int32_t Draw(ValuesView distribution, const SamplingParams& params, int64_t position, double* margin = nullptr);
// All of it. `margin` as in Draw (1 for a greedy or scored request).
SampleResult Sample(ValuesView logits, const SampleRequest& request, double* margin = nullptr);

}  // namespace hydrant::reference

#endif  // HYDRANT_KERNELS_REFERENCE_REFERENCE_H_
