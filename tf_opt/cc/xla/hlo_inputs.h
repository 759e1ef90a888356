// An op's inputs as values of a program that XLA compiles; as constants where
// they are known already.
#ifndef TF_OPT_CC_XLA_HLO_INPUTS_H_
#define TF_OPT_CC_XLA_HLO_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/xla/hlo.h"
#include "tf_opt/cc/xla/hlo_element.h"
#include "tf_opt/cc/xla/op_inputs.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/xla_data.pb.h"

namespace tf_opt {

// The i-th element of an input that has one for each of some variables, or is
// one for all.
template <xla::PrimitiveType kType>
absl::Status ReadHloElement(tensorflow::XlaOpKernelContext* context,
                            const std::string& name, int64_t i,
                            Hlo<kType>* element) {
  using Native = typename Hlo<kType>::Native;
  const tensorflow::XlaExpression& input = context->InputExpression(name);
  if (const std::optional<tensorflow::Tensor> known = input.constant_value()) {
    *element = known->flat<Native>()(known->dims() == 0 ? 0 : i);
    return absl::OkStatus();
  }
  const absl::StatusOr<xla::Shape> shape = context->InputXlaShape(name);
  if (!shape.ok()) return shape.status();
  xla::XlaOp value = context->Input(name);
  if (!shape->dimensions().empty()) {
    value = xla::Reshape(xla::Slice(value, {i}, {i + 1}, {1}), {});
  }
  *element = Hlo<kType>(value);
  return absl::OkStatus();
}

template <xla::PrimitiveType kType>
absl::Status ReadHloScalar(tensorflow::XlaOpKernelContext* context,
                           const std::string& name, Hlo<kType>* scalar) {
  const absl::StatusOr<tensorflow::TensorShape> shape = ShapeOf(context, name);
  if (!shape.ok()) return shape.status();
  absl::Status status = CheckScalarShape(name, *shape);
  return status.ok() ? ReadHloElement(context, name, 0, scalar) : status;
}

template <typename Numbers, std::size_t kCount>
absl::Status ReadHloScalars(tensorflow::XlaOpKernelContext* context,
                            const ScalarInput<Numbers> (&inputs)[kCount],
                            Numbers* numbers) {
  for (const ScalarInput<Numbers>& input : inputs) {
    absl::Status status;
    if (input.integer != nullptr) {
      status = ReadHloScalar(context, input.name, &(numbers->*input.integer));
    } else if (input.boolean != nullptr) {
      status = ReadHloScalar(context, input.name, &(numbers->*input.boolean));
    } else {
      status = ReadHloScalar(context, input.name, &(numbers->*input.number));
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Returns use(T()) with the Hlo of variables of this type.
template <typename Use>
absl::Status WithHloType(tensorflow::DataType type, const Use& use) {
  switch (type) {
    case tensorflow::DT_HALF:
      return use(HloHalf());
    case tensorflow::DT_BFLOAT16:
      return use(HloBFloat16());
    case tensorflow::DT_FLOAT:
      return use(HloFloat());
    default:
      return use(HloDouble());
  }
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_HLO_INPUTS_H_
