// A resource-apply op in a program that XLA compiles for any device: the rule
// and its frame in XLA's own operations.
#ifndef TF_OPT_CC_XLA_LOWERED_APPLY_OP_H_
#define TF_OPT_CC_XLA_LOWERED_APPLY_OP_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/ops/shape_functions.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"
#include "tf_opt/cc/rules/variable_inputs.h"
#include "tf_opt/cc/xla/apply_operands.h"
#include "tf_opt/cc/xla/apply_xla_op.h"
#include "tf_opt/cc/xla/hlo.h"
#include "tf_opt/cc/xla/hlo_element.h"
#include "tf_opt/cc/xla/hlo_inputs.h"
#include "tf_opt/cc/xla/lowered_launch.h"
#include "tf_opt/cc/xla/lowered_part.h"
#include "tf_opt/cc/xla/lowered_slices.h"
#include "tf_opt/cc/xla/slice_operands.h"

namespace tf_opt {

// Where an op may write. A wrong number that is known now is an error. One that
// is known when the program runs can't be: nothing is written then.
class WriteCondition {
 public:
  explicit WriteCondition(const HloBoolean& enabled) : holds_(enabled) {}

  // `error` returns it.
  template <typename Error>
  absl::Status Require(const HloBoolean& condition, const Error& error) {
    // Of a step that does nothing no number matters.
    if (IsConstantly(condition, false) && IsConstantly(holds_, true)) {
      return error();
    }
    Require(condition);
    return absl::OkStatus();
  }

  // Of what is known when the program runs.
  void Require(const HloBoolean& condition) { holds_ = holds_ && condition; }

  // Each number in its range.
  template <typename Numbers, std::size_t kCount>
  absl::Status RequireRanges(const ScalarInput<Numbers> (&inputs)[kCount],
                             const Numbers& numbers) {
    for (const ScalarInput<Numbers>& input : inputs) {
      absl::Status status = Require(input.InRange(numbers), [&] {
        return OutOfRange(input.name, input.range,
                          input.Get(numbers).constant());
      });
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const HloBoolean& holds() const { return holds_; }

 private:
  HloBoolean holds_;
};

template <typename Optimizer>
class LoweredApplyOp : public tensorflow::XlaOpKernel {
 public:
  LoweredApplyOp(tensorflow::OpKernelConstruction* context, bool sparse)
      : XlaOpKernel(context),
        op_(ApplyXlaOp::Of<Optimizer>(type_string(), sparse)) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
    OP_REQUIRES_OK(context, optimizer_.Read(*context));
    if (sparse) OP_REQUIRES_OK(context, slice_attributes_.Read(*context));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    ApplyOperands operands(op_, dtype_, count_);
    OP_REQUIRES_OK(context, operands.Read(context));
    OP_REQUIRES_OK(context, WithHloType(dtype_, [&](auto type) {
                     return Apply<decltype(type)>(context, &operands);
                   }));
    OP_REQUIRES_OK(context, operands.Assign(context));
  }

 private:
  using Hyperparameters =
      typename Optimizer::template HyperparametersOf<HloNumbers>;

  // What a step goes by.
  struct Inputs {
    Hyperparameters hyperparameters;
    FrameInputsOf<HloNumbers> frame;
    HloNumbers::Integer row = 0;  // Of a table.
    std::vector<VariableInputsOf<HloNumbers>> own;
  };

  absl::Status ReadInputs(tensorflow::XlaOpKernelContext* context,
                          Inputs* inputs) const {
    inputs->hyperparameters = optimizer_.template modes<HloNumbers>();
    absl::Status status =
        ReadHloScalars(context, Optimizer::template kScalarsOf<HloNumbers>,
                       &inputs->hyperparameters);
    if (!status.ok()) return status;
    inputs->frame = optimizer_.template frame<HloNumbers>();
    absl::Status seeded =
        context->ConstantInputAsIntScalar("seed", &inputs->frame.seed);
    if (!seeded.ok()) return seeded;
    status =
        ReadHloScalars(context, kFrameScalarsOf<HloNumbers>, &inputs->frame);
    if (!status.ok()) return status;
    for (const Operand& slot : optimizer_.slots()) {
      if (!slot.is_row_of_table()) continue;
      status = ReadHloScalar(context, slot.row_input, &inputs->row);
      if (!status.ok()) return status;
    }
    inputs->own.resize(count_);
    for (int i = 0; i < count_; ++i) {
      auto& own = inputs->own[i];
      HloDouble* const numbers[] = {&own.weight_decay,
                                    &own.learning_rate_factor,
                                    &own.gradient_factor, &own.number};
      for (std::size_t k = 0; k < std::size(numbers); ++k) {
        status = ReadHloElement(context, kPerVariableInputs[k], i, numbers[k]);
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  template <typename Launch>
  static absl::Status Check(const Launch& launch, const Inputs& inputs,
                            WriteCondition* writes) {
    absl::Status status;
    if (!launch.has_accumulators()) {
      status = writes->Require(inputs.frame.update,
                               [] { return Launch::NoAccumulators(); });
      if (!status.ok()) return status;
    }
    if (launch.has_table()) {
      const auto& row = inputs.row;
      HloBoolean is_there = row >= 0 && row < launch.rows();
      if (launch.rows() == 0) is_there = false;
      status = writes->Require(is_there,
                               [&] { return launch.NoRow(row.constant()); });
      if (!status.ok()) return status;
    }
    status = writes->RequireRanges(Optimizer::template kScalarsOf<HloNumbers>,
                                   inputs.hyperparameters);
    if (!status.ok()) return status;
    status = writes->RequireRanges(kFrameScalarsOf<HloNumbers>, inputs.frame);
    for (std::size_t i = 0; status.ok() && i < inputs.own.size(); ++i) {
      status = writes->Require(inputs.own[i].HasNumber(), [&] {
        return launch.NoVariableNumber(inputs.own[i].number.constant());
      });
    }
    return status;
  }

  // What takes part of each variable. Of slices, `operands` gets the gradients
  // that they mean, and `are_valid` whether all of them are some.
  template <typename T>
  absl::Status FindParts(tensorflow::XlaOpKernelContext* context,
                         ApplyOperands* operands,
                         std::vector<LoweredPart>* parts,
                         HloBoolean* are_valid) const {
    SliceOperands slices;
    if (op_.sparse) {
      absl::Status status =
          slices.Read(context, slice_attributes_, operands->shapes());
      if (!status.ok()) return status;
    }
    std::vector<xla::XlaOp> gradients;
    for (int i = 0; i < count_; ++i) {
      const auto sizes = operands->shapes()[i].dim_sizes();
      const std::vector<int64_t> variable(sizes.begin(), sizes.end());
      if (!op_.sparse) {
        parts->emplace_back(context->builder(), variable);
        continue;
      }
      const LoweredSlices merged(slices, i, variable);
      *are_valid = *are_valid && merged.are_valid();
      // Of no rows none can be taken.
      if (slice_attributes_.lazy() && variable[0] > 0) {
        parts->emplace_back(variable, merged);
        gradients.push_back(merged.template Sums<T>());
      } else {
        parts->emplace_back(context->builder(), variable);
        gradients.push_back(merged.template Dense<T>());
      }
    }
    if (op_.sparse) operands->SetGradients(gradients);
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status Apply(tensorflow::XlaOpKernelContext* context,
                     ApplyOperands* operands) const {
    Inputs inputs;
    absl::Status status = ReadInputs(context, &inputs);
    if (!status.ok()) return status;
    std::vector<LoweredPart> parts;
    HloBoolean slices_are_valid = true;
    status = FindParts<T>(context, operands, &parts, &slices_are_valid);
    if (!status.ok()) return status;
    LoweredLaunch<T> launch(operands, optimizer_.slots(), parts, inputs.row,
                            context->builder());
    if (launch.count(kMasterWeight) > 0 && !kHas16Bits<T>) {
      return NoMasterWeights(dtype_);
    }
    status = launch.CheckSlotsHaveOneType();
    if (!status.ok()) return status;
    FrameInputsOf<HloNumbers>& frame = inputs.frame;
    WriteCondition writes(frame.enabled);
    status = Check(launch, inputs, &writes);
    if (!status.ok()) return status;
    if (operands->misfit().valid()) {
      writes.Require(HloNumbers::Integer(operands->misfit()) < 0);
    }
    writes.Require(slices_are_valid);
    // Nor is there anything to read, perhaps, of a table.
    if (IsConstantly(writes.holds(), false)) return absl::OkStatus();
    frame.uses_random_bits = launch.uses_random_bits(frame);
    optimizer_.template ChooseRule<ComputeType<T>>([&](auto chosen) {
      using Rule = typename decltype(chosen)::type;
      const typename Rule::Step step(inputs.hyperparameters);
      std::vector<FramedRule<Rule>> rules;
      for (const auto& own : inputs.own) rules.emplace_back(step, frame, own);
      launch.template Apply<Rule>(rules, frame.uses_random_bits, writes.holds(),
                                  frame.update);
    });
    return absl::OkStatus();
  }

  const ApplyXlaOp op_;
  Optimizer optimizer_;
  SliceAttributes slice_attributes_;
  tensorflow::DataType dtype_ = tensorflow::DT_INVALID;
  int count_ = 0;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_LOWERED_APPLY_OP_H_
