// The experts of CpuDevice: the rows of a step are sorted by expert, and each expert is multiplied with its rows alone.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/linear/cpu_linear.h"
#include "kernels/cpu/linear/expert_scratch.h"
#include "kernels/cpu/linear/linear_kernels.h"

namespace hydrant {
namespace {

using Group = ExpertGroups::Group;

// Rows whose choice among 128 experts takes as long as waking a thread.
constexpr int64_t kRoutedRows = 4;

// A product of every group's rows with the weight of its expert.
struct ExpertProduct {
  std::span<const std::unique_ptr<LinearWeight>> weights;  // [experts]
  Epilogue epilogue;
  Activation activation;
  // kAccumulate reads a row of x for each entry, and adds it times the expert's weight to its row of y. Else x has the rows of
  // the step, and y one for each entry.
  Matrix x, y;

  bool adds() const { return epilogue == Epilogue::kAccumulate; }
};

// One thread's part of a product. The entries of a group are worked on in parts of at most kExpertRows: the rows of all parts pass
// a panel before the next one comes, so that it is read from memory once.
class ExpertWorker {
 public:
  ExpertWorker(const ExpertProduct& product, const KernelTable& kernels, ExpertScratch& scratch, size_t row_bytes,
               int thread, int threads)
      : product_(product),
        kernels_(kernels),
        scratch_(scratch),
        row_bytes_(row_bytes),
        thread_(thread),
        threads_(threads) {}

  // Prepares this thread's parts of x for run `number` of the weights; the threads take the parts in turn.
  void Prepare(size_t number) {
    int64_t part = 0;
    for (const Group& group : scratch_.groups.groups()) {
      const LinearRun* run = RunOf(group, number);
      if (run == nullptr) continue;
      for (int64_t done = 0; done < group.rows; done += kExpertRows) {
        if (part++ % threads_ != thread_) continue;
        PrepareRows(*run, group.first + done, std::min(kExpertRows, group.rows - done));
      }
    }
  }

  // Multiplies all entries with this thread's outputs. They are the same ones of every expert, and experts come in ascending
  // order: so a sum in y has one order.
  void Multiply(size_t number) {
    for (const Group& group : scratch_.groups.groups()) {
      const LinearRun* run = RunOf(group, number);
      if (run == nullptr) continue;
      const int64_t end = run->panels * (thread_ + 1) / threads_;
      // Panel by panel where several parts want it.
      int64_t panel = run->panels * thread_ / threads_;
      const int64_t step = group.rows > kExpertRows ? 1 : end - panel;
      for (; panel < end; panel += step) {
        for (int64_t done = 0; done < group.rows; done += kExpertRows) {
          MultiplyRows(*run, group.first + done, std::min(kExpertRows, group.rows - done), panel, panel + step);
        }
      }
    }
  }

 private:
  // Null if the expert's weight has fewer runs.
  const LinearRun* RunOf(const Group& group, size_t number) const {
    const auto& weight = static_cast<const CpuLinear&>(*product_.weights[static_cast<size_t>(group.expert)]);
    if (number >= weight.runs().size()) return nullptr;
    // What is added to y must lie in the same panels in every expert.
    assert(weight.runs()[number].segments.size() == 1 && (!product_.adds() || weight.runs().size() == 1));
    return &weight.runs()[number];
  }

  const ProductKernels& KernelsOf(const LinearRun& run) const {
    return run.quantised ? *kernels_.quantised : kernels_.linear->product;
  }

  char* PreparedOf(int64_t entry) const {
    return static_cast<char*>(scratch_.prepared.data()) + static_cast<size_t>(entry) * row_bytes_;
  }

  void PrepareRows(const LinearRun& run, int64_t first, int64_t count) {
    const int64_t cols = product_.x.cols;
    const auto* x = static_cast<const float*>(product_.x.data);
    const float* rows = x + first * cols;
    if (!product_.adds()) {
      float* gathered = scratch_.GatheredOf(thread_);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = scratch_.groups.rows()[static_cast<size_t>(first + i)];
        std::memcpy(gathered + i * cols, x + row * cols, static_cast<size_t>(cols) * sizeof(float));
      }
      rows = gathered;
    }
    const ProductKernels& kernels = KernelsOf(run);
    const WeightFormat format = run.segments.front().packed.format;
    kernels.prepare(format, rows, count, cols, 0, kernels.tile_count(count), PreparedOf(first));
  }

  void MultiplyRows(const LinearRun& run, int64_t first, int64_t count, int64_t panel_begin, int64_t panel_end) const {
    const LinearSegment& segment = run.segments.front();
    LinearCall call;
    call.weight = segment.packed;
    call.epilogue = EpilogueOf(run.part, product_.epilogue);
    call.activation = product_.activation;
    call.rows = count;
    call.x = PreparedOf(first);
    call.y = static_cast<float*>(product_.y.data);
    call.y_stride = product_.y.cols;
    call.next = segment.panel(panel_end);
    if (product_.adds()) {
      call.y_rows = scratch_.groups.rows().data() + first;
      call.factors = scratch_.groups.weights().data() + first;
    } else {
      call.y += first * product_.y.cols;
    }
    const ProductKernels& kernels = KernelsOf(run);
    kernels.multiply(call, 0, kernels.tile_count(count), panel_begin, panel_end);
  }

  const ExpertProduct& product_;
  const KernelTable& kernels_;
  ExpertScratch& scratch_;
  const size_t row_bytes_;
  const int thread_, threads_;
};

void MultiplyExperts(const ExpertProduct& product, const KernelTable& kernels, ExpertScratch& scratch, size_t row_bytes,
                     ThreadPool& pool) {
  size_t runs = 0;
  for (const Group& group : scratch.groups.groups()) {
    const auto& weight = static_cast<const CpuLinear&>(*product.weights[static_cast<size_t>(group.expert)]);
    runs = std::max(runs, weight.runs().size());
  }
  for (size_t number = 0; number < runs; ++number) {
    pool.Run([&](int thread) {
      ExpertWorker worker(product, kernels, scratch, row_bytes, thread, pool.threads());
      worker.Prepare(number);
      pool.Barrier();
      worker.Multiply(number);
    });
  }
}

}  // namespace

size_t CpuDevice::PreparedExpertRowBytes(int64_t cols) const {
  return std::max(kernels_.linear->product.prepared_bytes(1, cols), kernels_.quantised->prepared_bytes(1, cols));
}

void CpuDevice::AddExperts(const Experts& experts, const ExpertRouting& routing, Activation activation, Matrix x,
                           Matrix logits, Matrix inner, Matrix y) {
  const auto per_row = static_cast<size_t>(routing.per_row);
  const auto count = static_cast<size_t>(logits.cols);
  assert(experts.up().size() == count);
  assert(x.rows == y.rows && x.cols == y.cols && logits.rows == x.rows && inner.rows == x.rows * routing.per_row);
  assert(x.dtype == DType::kF32 && logits.dtype == DType::kF32 && inner.dtype == DType::kF32 && y.dtype == DType::kF32);
  if (x.rows == 0) return;
  ExpertScratch& scratch = *experts_;
  const std::span<ChosenExpert> chosen(scratch.chosen.data(), static_cast<size_t>(x.rows) * per_row);
  assert(chosen.size() <= scratch.chosen.size());
  pool_.ParallelFor(x.rows, kRoutedRows, [&](int64_t begin, int64_t end, int) {
    for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
      const std::span<const float> of_row(static_cast<const float*>(logits.data) + row * count, count);
      ChooseExperts(of_row, routing.normalised, chosen.subspan(row * per_row, per_row));
    }
  });
  scratch.groups.Sort(chosen, routing.per_row, logits.cols);
  const ExpertProduct up = {experts.up(), Epilogue::kGate, activation, x, inner};
  const ExpertProduct down = {experts.down(), Epilogue::kAccumulate, activation, inner, y};
  for (const ExpertProduct& product : {up, down}) {
    MultiplyExperts(product, kernels_, scratch, PreparedExpertRowBytes(product.x.cols), pool_);
  }
}

}  // namespace hydrant
