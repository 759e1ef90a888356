// A resource-apply op in a program that XLA compiles for any device: the rule
// and its frame in XLA's own operations.
#ifndef TF_OPT_CC_XLA_LOWERED_APPLY_OP_H_
#define TF_OPT_CC_XLA_LOWERED_APPLY_OP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"
#include "tf_opt/cc/rules/variable_inputs.h"
#include "tf_opt/cc/xla/apply_operands.h"
#include "tf_opt/cc/xla/apply_xla_op.h"
#include "tf_opt/cc/xla/hlo.h"
#include "tf_opt/cc/xla/hlo_element.h"
#include "tf_opt/cc/xla/hlo_inputs.h"
#include "tf_opt/cc/xla/lowered_launch.h"

namespace tf_opt {

template <typename Optimizer>
class LoweredApplyOp : public tensorflow::XlaOpKernel {
 public:
  explicit LoweredApplyOp(tensorflow::OpKernelConstruction* context)
      : XlaOpKernel(context),
        op_(ApplyXlaOp::Of<Optimizer>(type_string(), /*sparse=*/false)) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
    OP_REQUIRES_OK(context, optimizer_.Read(*context));
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
  using Numbers = HloNumbers;

  template <typename T>
  absl::Status Apply(tensorflow::XlaOpKernelContext* context,
                     ApplyOperands* operands) const {
    LoweredLaunch<T> launch(operands, optimizer_.slots(), context->builder());
    if (launch.count(kMasterWeight) > 0 && !kHas16Bits<T>) {
      return NoMasterWeights(dtype_);
    }
    auto hyperparameters = optimizer_.template modes<Numbers>();
    absl::Status status = ReadHloScalars(
        context, Optimizer::template kScalarsOf<Numbers>, &hyperparameters);
    if (!status.ok()) return status;
    FrameInputsOf<Numbers> frame = optimizer_.template frame<Numbers>();
    status = ReadHloScalars(context, kFrameScalarsOf<Numbers>, &frame);
    if (!status.ok()) return status;
    Numbers::Integer row = 0;
    for (const Operand& slot : optimizer_.slots()) {
      if (!slot.is_row_of_table()) continue;
      status = ReadHloScalar(context, slot.row_input, &row);
      if (!status.ok()) return status;
    }
    status = launch.Begin(row);
    if (!status.ok()) return status;
    std::vector<VariableInputsOf<Numbers>> own(count_);
    for (int i = 0; i < count_; ++i) {
      for (const auto& [name, number] :
           {std::pair("weight_decay", &own[i].weight_decay),
            std::pair("learning_rate_factors", &own[i].learning_rate_factor),
            std::pair("gradient_factors", &own[i].gradient_factor),
            std::pair("variable_numbers", &own[i].number)}) {
        status = ReadHloElement(context, name, i, number);
        if (!status.ok()) return status;
      }
    }

    // A wrong number that is known now is an error. One that is known when the
    // program runs can't be: nothing is written then.
    HloBoolean writes = frame.enabled;
    const auto require = [&](const HloBoolean& condition,
                             const auto& message) -> absl::Status {
      if (IsConstantly(condition, false) && IsConstantly(writes, true)) {
        return absl::InvalidArgumentError(message());
      }
      writes = writes && condition;
      return absl::OkStatus();
    };
    if (!launch.has_accumulators()) {
      status = require(frame.update, [] {
        return "`accumulators` must hold one variable for each gradient where "
               "`update` is false, got none";
      });
      if (!status.ok()) return status;
    }
    if (launch.has_table()) {
      status = require(row >= 0 && row < launch.rows(), [&] {
        return absl::StrCat("`", launch.row_input(), "` must be in [0, ",
                            launch.rows(), "), the rows of `", launch.table(),
                            "`, got ", row.constant());
      });
      if (!status.ok()) return status;
    }
    const auto require_ranges = [&](const auto& inputs,
                                    const auto& numbers) -> absl::Status {
      for (const auto& input : inputs) {
        status = require(input.InRange(numbers), [&] {
          return absl::StrCat("`", input.name, "` must be ",
                              Describe(input.range), ", got ",
                              input.Get(numbers).constant());
        });
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    };
    status = require_ranges(Optimizer::template kScalarsOf<Numbers>,
                            hyperparameters);
    if (!status.ok()) return status;
    status = require_ranges(kFrameScalarsOf<Numbers>, frame);
    if (!status.ok()) return status;
    for (const auto& each : own) {
      status = require(each.HasNumber(), [&] {
        return absl::StrCat("`variable_numbers` must be integers, got ",
                            each.number.constant());
      });
      if (!status.ok()) return status;
    }

    frame.uses_random_bits = launch.uses_random_bits(frame);
    optimizer_.template ChooseRule<ComputeType<T>>([&](auto chosen) {
      using Rule = typename decltype(chosen)::type;
      const typename Rule::Step step(hyperparameters);
      std::vector<FramedRule<Rule>> rules;
      for (const auto& each : own) rules.emplace_back(step, frame, each);
      launch.template Apply<Rule>(rules, frame.uses_random_bits, writes,
                                  frame.update);
    });
    return absl::OkStatus();
  }

  const ApplyXlaOp op_;
  Optimizer optimizer_;
  tensorflow::DataType dtype_ = tensorflow::DT_INVALID;
  int count_ = 0;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_LOWERED_APPLY_OP_H_
