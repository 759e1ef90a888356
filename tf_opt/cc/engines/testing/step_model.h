// Steps for the tests of engines: all arrays of a step over tables, for the CPU
// engine and the GPU's.
#ifndef TF_OPT_CC_ENGINES_TESTING_STEP_MODEL_H_
#define TF_OPT_CC_ENGINES_TESTING_STEP_MODEL_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <vector>

#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/testing/row_gradient.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// State that is rounded at random: a third slot, as Adam's maximum, isn't.
constexpr OperandSet kRoundedState = 1u << kAverage | 3u << kFrameOperandCount;

// Every part of a frame, on and off.
inline std::vector<FrameInputs> AllFrames() {
  FrameInputs update;
  update.gradient_scale = 0.75;
  update.clip_value = 1.25;
  update.ema_momentum = 0.9;
  update.iteration = 7;
  update.seed = -3;
  update.rounded_at_random = kRoundedState;
  FrameInputs overwrite = update;
  overwrite.overwrite_with_average = true;
  overwrite.maximize = true;
  overwrite.decoupled_weight_decay = false;
  overwrite.rounded_at_random |= 1u << kVariable;
  FrameInputs accumulate = update;
  accumulate.update = false;
  FrameInputs accumulate_and_overwrite = overwrite;
  accumulate_and_overwrite.update = false;
  // The last one leaves the gradient as it is.
  return {update, overwrite, accumulate, accumulate_and_overwrite, {}};
}

// A number in this range for step t.
inline double NumberIn(Range range, int t) {
  switch (range) {
    case Range::kDecayRate:
      return 0.75;
    case Range::kFraction:
      return 0.5;
    case Range::kNonNegative:
      return 0.0625 / t;
    case Range::kPositive:
      return t;
    default:
      return 0.45;
  }
}

// How tensors are stored.
struct Stored {
  StateType state = StateType::kArithmetic;  // Slots and averages.
  bool master_weights = false;
};

// All storage types for variables of type T and their state.
template <typename T>
std::vector<Stored> AllStored() {
  std::vector<Stored> all = {{}, {StateType::kBFloat16}};
  if (sizeof(T) == 2) {
    all.push_back({StateType::kArithmetic, true});
    all.push_back({StateType::kBFloat16, true});
  }
  if (std::is_same<T, double>::value) all.push_back({StateType::kFloat});
  return all;
}

enum class Form { kDense, kExact, kLazy, kWaiting };

struct How {
  Form form;
  E element;
  int variant = 0;     // See rules/description.h.
  unsigned modes = 0;  // The attributes that only this op has, as bits.
  unsigned bits = 0;
  Stored stored;
  bool framed = false;  // With accumulators and averages.
};

// Steps of an optimizer over tables.
template <typename Description>
class StepModel {
 public:
  using Hyperparameters = typename Description::Hyperparameters;
  static constexpr int64_t kLayers = 3;  // Of a stacked slot.

  StepModel(const Tables& tables, const How& how, Arena* arena)
      : tables(tables), how(how), count_(tables.size()), arena_(arena) {
    arena->Clear();
    report = arena->New<Refusal>(1);
    *report = {};
    layer = arena->New<int64_t>(1);
    *layer = how.bits & kMisaligned ? kLayers - 1 : 0;
    hyperparameters = arena->New<Hyperparameters>(1);
    frame = arena->New<FrameInputs>(1);
    double* const numbers = arena->New<double>(4 * count_);
    for (int k = 0; k < 4; ++k) {
      vectors_.inputs[k].numbers = numbers + k * count_;
    }
    arrays_.element = how.element;
    for (int i = 0; i < count_; ++i) {
      arrays_.sizes.push_back(tables[i].size());
      arrays_.widths.push_back(tables[i].width);
      const double own[] = {0.01 * (i % 10), 1.5, how.framed ? 1.25 : 1,
                            1.0 * i};
      for (int k = 0; k < 4; ++k) numbers[k * count_ + i] = own[k];
      if (how.form == Form::kDense) continue;
      gradients.emplace_back(tables[i], how.element, how.bits, arena);
    }
    for (const Operand& operand : kFrameOperands) AddArrays(operand);
    WithRule<Description, float>(how.variant, [this](auto tag) {
      using Rule = typename decltype(tag)::type;
      for (int k = 0; k < Rule::kSlots; ++k) {
        AddArrays(Description::kSlotOperands[k]);
      }
      if (Rule::kRowWise) AddArrays(Operand("").ByRow());
    });
    if (how.form != Form::kWaiting) return;
    for (const Operand& operand : kWaitingOperands) AddArrays(operand);
  }

  // Sets the numbers and gradients of the next step.
  void Set(const FrameInputs& inputs, bool lazy) {
    ++step_;
    lazy_ = lazy;
    for (const auto& input : Description::kScalars) {
      void* const number = input.In(hyperparameters);
      if (input.type == ScalarType::kInt64) {
        *static_cast<int64_t*>(number) = step_;
      } else {
        *static_cast<double*>(number) = NumberIn(input.range, step_);
      }
    }
    for (std::size_t k = 0; k < std::size(Description::kModes); ++k) {
      *static_cast<bool*>(Description::kModes[k].In(hyperparameters)) =
          how.modes >> k & 1;
    }
    *frame = inputs;
    frame->iteration += step_;
    for (RowGradient& gradient : gradients) gradient.Fill(step_);
  }

  E TypeOf(int operand) const { return TypeOf(operands_[operand]); }
  bool has_layers() const { return layer_input_ != nullptr; }

  // The step for the engines.
  CpuStep ForCpu() {
    CpuStep step{Common()};
    for (int i = 0; i < count_; ++i) {
      step.own.push_back(vectors_[i]);
      if (step.rows.sparse) step.gradients.push_back(gradients[i].ForCpu());
      for (std::size_t k = 0; k < operands_.size(); ++k) {
        StepArray& array = step.arrays.arrays[k * count_ + i];
        if (!operands_[k].is_stacked() || array.data == nullptr) continue;
        array.data = static_cast<char*>(array.data) +
                     *layer * tables[i].size() * SizeOf(TypeOf(k));
      }
    }
    return step;
  }
  GpuStep ForGpu() const {
    GpuStep step{Common()};
    for (const auto& input : Description::kScalars) {
      step.scalars.push_back(input.In(hyperparameters));
    }
    // The host doesn't know these.
    const int64_t zero = 0;
    for (const auto& input : kFrameScalars) {
      step.frame_scalars.push_back(input.In(frame));
      input.Read(&zero, &step.frame);
    }
    step.report = report;
    return step;
  }

  const Tables tables;
  const How how;
  std::vector<RowGradient> gradients;
  // In the device's memory.
  Refusal* report;
  int64_t* layer;
  Hyperparameters* hyperparameters;
  FrameInputs* frame;

 private:
  static constexpr int64_t kCapacity = 2;  // Missed steps.

  E TypeOf(const Operand& operand) const {
    const E arithmetic = how.element == E::kDouble ? E::kDouble : E::kFloat;
    const E states[] = {arithmetic, E::kFloat, E::kBFloat16};
    const E types[] = {how.element, arithmetic,
                       states[static_cast<int>(how.stored.state)], E::kFloat,
                       E::kDouble};
    return types[static_cast<int>(operand.storage)];
  }

  // Adds an operand's arrays. Most master weights round to their variables;
  // some rows wait for what there isn't.
  void AddArrays(const Operand& operand) {
    const int k = operands_.size();
    const Storage storage = operand.storage;
    const bool exists =
        k == kGradient ? how.form == Form::kDense
        : k == kMasterWeight
            ? how.stored.master_weights
            : how.framed || (k != kAccumulator && k != kAverage);
    for (const Table& table : tables) {
      const int64_t count = !exists ? 0
                            : storage == Storage::kCoasting
                                ? kCapacity * MissedSteps::kColumns
                            : operand.by_row       ? table.rows
                            : operand.is_stacked() ? kLayers * table.size()
                                                   : table.size();
      const E type = TypeOf(operand);
      void* const array =
          arena_->New<char>(count, how.bits & kMisaligned, SizeOf(type));
      arrays_.arrays.push_back({array, storage == Storage::kState
                                           ? how.stored.state
                                           : StateType::kArithmetic});
      const bool special = how.bits & kSpecial && !operand.is_of_waiting_rows();
      for (int64_t at = 0; at < count; ++at) {
        const double off = at % 8 == 0 ? 0x1p-4 : 0x1p-13;
        Put(storage == Storage::kCoasting ? 0
            : storage == Storage::kSince  ? (at % 5 == 3 ? NAN : -(at % 3))
            : k == kVariable              ? 1 + Unit(at)
            : k == kGradient              ? Unit(at) - (at % 3 == 0)
            : k == kMasterWeight          ? 1 + Unit(at) + off
                                          : 0.05 + Unit(1000 * k + at),
            type, array, at, special && Any(4) == 0);
      }
    }
    if (operand.is_stacked()) layer_input_ = operand.layer_input;
    operands_.push_back(operand);
  }

  Step Common() const {
    Step step;
    step.arrays = arrays_;
    step.variant = how.variant;
    step.frame = *frame;
    step.variables = vectors_;
    if (has_layers()) step.layer = {layer_input_, kLayers, layer};
    step.has_accumulators = how.framed;
    step.rows = {how.form != Form::kDense, lazy_, how.form == Form::kWaiting};
    for (const RowGradient& gradient : gradients) {
      step.slices.push_back(gradient.slices);
      step.capacities.push_back(kCapacity);
    }
    step.numbers.resize(sizeof(Hyperparameters));
    std::memcpy(step.numbers.data(), hyperparameters, sizeof(Hyperparameters));
    return step;
  }

  const int count_;
  Arena* const arena_;
  VariableVectors vectors_;
  const char* layer_input_ = nullptr;  // Of a stacked slot.
  std::vector<Operand> operands_;
  StepArrays arrays_;
  int step_ = 0;
  bool lazy_ = false;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_STEP_MODEL_H_
