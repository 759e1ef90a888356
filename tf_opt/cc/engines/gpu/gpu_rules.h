// Makes a rule for each tensor from a step's numbers, in the memory of a GPU.
// Nothing is read back, so a step needs no synchronization, and a CUDA graph
// can replay it with other numbers.
#ifndef TF_OPT_CC_ENGINES_GPU_GPU_RULES_H_
#define TF_OPT_CC_ENGINES_GPU_GPU_RULES_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Some numbers of a struct with their addresses in device memory; the host
// knows the others.
template <typename Numbers, int kCapacity>
struct GpuScalars {
  void Add(const ScalarInput& input, const void* from) {
    inputs[count] = input;
    at[count++] = from;
  }

  TF_OPT_HOST_DEVICE Numbers Read() const {
    Numbers numbers = known;
    for (int k = 0; k < count; ++k) inputs[k].Read(at[k], &numbers);
    return numbers;
  }

  // Finds the first number that is out of its range.
  TF_OPT_HOST_DEVICE void Check(const Numbers& numbers, Refusal::Kind kind,
                                Refusal* refusal) const {
    CheckRanges(inputs, count, &numbers, kind, refusal);
  }

  Numbers known;
  int count = 0;
  ScalarInput inputs[kCapacity];
  const void* at[kCapacity];
};

// Inputs of a step. All pointers are to device memory.
template <typename Description>
struct GpuStepInputs {
  GpuScalars<typename Description::Hyperparameters,
             std::size(Description::kScalars)>
      scalars;
  GpuScalars<FrameInputs, std::size(kFrameScalars)> frame;
  VariableVectors variables;
  bool has_accumulators = true;
  bool waits = false;  // If neither, every step must update.
  StepLayer layer;
};

// What a step knows on the device besides its rules. A merge of slices knows
// only what is bad; for it all else is zero.
struct alignas(16) GpuStepHeader {
  int64_t layer;
  // The complement of the first bad entry's number among all entries of sparse
  // gradients (row_batch.h); 0: none is bad.
  uint32_t bad;
  bool skips;       // Whether it is not enabled, or a number is refused.
  bool updates;     // Whether it updates or accumulates.
  bool catches_up;  // Whether rows that wait catch up, if there are any.
};

// Rules of a step, in device memory.
template <typename Rule>
class GpuRules {
  static_assert(std::is_trivially_copyable<FramedRule<Rule>>::value,
                "rules lie in memory that nobody constructed");

 public:
  using Inputs = GpuStepInputs<typename Rule::Description>;

  // `memory` must be aligned for doubles.
  TF_OPT_HOST_DEVICE explicit GpuRules(void* memory)
      : header_(static_cast<GpuStepHeader*>(memory)),
        rules_(reinterpret_cast<FramedRule<Rule>*>(header_ + 1)) {}

  static std::size_t Bytes(std::size_t tensors) {
    return sizeof(GpuStepHeader) + tensors * sizeof(FramedRule<Rule>);
  }

  // Computes the rule of tensor i, in thread i. Thread 0 also checks all
  // numbers and returns what is wrong, which makes the rules invalid. Also
  // computes what rows miss that miss this step, unless `missed` is null.
  TF_OPT_HOST_DEVICE Refusal Compute(const Inputs& inputs, int64_t i,
                                     MissedStep* missed) const {
    const auto hyperparameters = inputs.scalars.Read();
    const typename Rule::Scalars scalars(hyperparameters);
    const FrameInputs frame = inputs.frame.Read();
    rules_[i] = FramedRule<Rule>(scalars, frame, inputs.variables[i]);
    if (missed != nullptr) {
      missed[i] = MissedStepOf<Rule>(scalars, frame, inputs.variables[i]);
    }
    if (i != 0) return {};
    const int64_t layer =
        inputs.layer.at == nullptr ? 0 : ReadOnce(inputs.layer.at);
    // A step that is not enabled uses no number.
    Refusal refusal;
    if (frame.enabled) {
      CheckLayer(inputs.layer, layer, inputs.has_accumulators || inputs.waits,
                 frame, &refusal);
      inputs.scalars.Check(hyperparameters, Refusal::kScalar, &refusal);
      inputs.frame.Check(frame, Refusal::kFrameScalar, &refusal);
    }
    header_->layer = layer;
    header_->bad = 0;
    header_->skips = !frame.enabled || refusal.kind != Refusal::kNone;
    header_->updates = frame.update;
    // Rows go on waiting while gradients are accumulated.
    header_->catches_up = frame.update || !inputs.has_accumulators;
    return refusal;
  }

  TF_OPT_HOST_DEVICE const GpuStepHeader* header() const { return header_; }
  TF_OPT_HOST_DEVICE const FramedRule<Rule>& operator[](int64_t i) const {
    return rules_[i];
  }

 private:
  GpuStepHeader* header_;
  FramedRule<Rule>* rules_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_GPU_RULES_H_
