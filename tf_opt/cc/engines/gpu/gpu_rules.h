// Makes a rule for each tensor from a step's numbers, in the memory of a GPU.
// Nothing is read back, so a step needs no synchronization, and a CUDA graph
// can replay it with other numbers.
#ifndef TF_OPT_CC_ENGINES_GPU_GPU_RULES_H_
#define TF_OPT_CC_ENGINES_GPU_GPU_RULES_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <type_traits>

#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// A device can't read text of the host.
constexpr int kGpuNameCapacity = 40;
using GpuName = char[kGpuNameCapacity];
inline void CopyName(const char* from, GpuName& to) {
  std::snprintf(to, kGpuNameCapacity, "%s", from);
}

// Some numbers of a struct with their addresses in device memory; the host
// knows the others.
template <typename Numbers, int kCapacity>
struct GpuScalars {
  struct Entry {
    ScalarInput input;
    GpuName name;
    const void* at;
  };

  void Add(const ScalarInput& input, const void* at) {
    Entry& entry = entries[count++];
    entry.input = input;
    CopyName(input.name, entry.name);
    entry.at = at;
  }

  TF_OPT_HOST_DEVICE Numbers Read() const {
    Numbers numbers = known;
    for (int k = 0; k < count; ++k) {
      entries[k].input.Read(entries[k].at, &numbers);
    }
    return numbers;
  }

  // Prints the numbers that are out of range.
  TF_OPT_HOST_DEVICE bool Check(const Numbers& numbers) const {
    bool valid = true;
    for (int k = 0; k < count; ++k) {
      const ScalarInput& input = entries[k].input;
      const double number = input.Get(&numbers);
      if (IsInRange(input.range, number)) continue;
      valid = false;
      printf("tf_opt: `%s` must be %s, got %g; nothing was written\n",
             entries[k].name, Describe(input.range), number);
    }
    return valid;
  }

  Numbers known;
  int count = 0;
  Entry entries[kCapacity];
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
  GpuName layer_name;
};

// What a step knows on the device besides its rules.
struct alignas(16) GpuStepHeader {
  int64_t layer;
  bool writes;      // Whether it may write, ...
  bool updates;     // ... and whether it updates or accumulates.
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
  // numbers. A number out of range makes the rules invalid and is printed: a
  // device can't return an error without a wait. Also computes what rows miss
  // that miss this step, unless `missed` is null.
  TF_OPT_HOST_DEVICE void Compute(const Inputs& inputs, int64_t i,
                                  MissedStep* missed) const {
    const auto hyperparameters = inputs.scalars.Read();
    const typename Rule::Scalars scalars(hyperparameters);
    const FrameInputs frame = inputs.frame.Read();
    rules_[i] = FramedRule<Rule>(scalars, frame, inputs.variables[i]);
    if (missed != nullptr) {
      missed[i] = MissedStepOf<Rule>(scalars, frame, inputs.variables[i]);
    }
    if (i == 0) {
      const int64_t layer =
          inputs.layer.at == nullptr ? 0 : ReadOnce(inputs.layer.at);
      // A step that is not enabled uses no number.
      const bool writes =
          frame.enabled &&
          inputs.scalars.Check(hyperparameters) & inputs.frame.Check(frame) &
              CheckLayer(inputs, layer) & CheckUpdate(inputs, frame);
      // Rows go on waiting while gradients are accumulated.
      *header_ = {layer, writes, frame.update,
                  frame.update || !inputs.has_accumulators};
    }
  }

  TF_OPT_HOST_DEVICE const GpuStepHeader* header() const { return header_; }
  TF_OPT_HOST_DEVICE const FramedRule<Rule>& operator[](int64_t i) const {
    return rules_[i];
  }

 private:
  TF_OPT_HOST_DEVICE static bool CheckLayer(const Inputs& inputs,
                                            int64_t layer) {
    const int64_t count = inputs.layer.count;
    if (inputs.layer.at == nullptr || (layer >= 0 && layer < count))
      return true;
    printf("tf_opt: `%s` must be in [0, %lld), got %lld; nothing was written\n",
           inputs.layer_name, static_cast<long long>(count),
           static_cast<long long>(layer));
    return false;
  }

  TF_OPT_HOST_DEVICE static bool CheckUpdate(const Inputs& inputs,
                                             const FrameInputs& frame) {
    if (frame.update || inputs.has_accumulators || inputs.waits) return true;
    printf(
        "tf_opt: `accumulators` must hold one variable for each gradient where "
        "`update` is false, got none; nothing was written\n");
    return false;
  }

  GpuStepHeader* header_;
  FramedRule<Rule>* rules_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_GPU_RULES_H_
