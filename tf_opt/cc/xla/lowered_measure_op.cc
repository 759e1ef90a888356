#include "tf_opt/cc/xla/lowered_measure_op.h"

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "tf_opt/cc/xla/hlo.h"
#include "tf_opt/cc/xla/hlo_element.h"
#include "tf_opt/cc/xla/hlo_inputs.h"
#include "tf_opt/cc/xla/measured_operands.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/shape_util.h"

namespace tf_opt {
namespace {

// A reduction's function of two scalars.
template <typename Value, typename Combine>
xla::XlaComputation Combining(xla::XlaBuilder* builder, xla::PrimitiveType type,
                              const Combine& combine) {
  const auto inner = builder->CreateSubBuilder("combine");
  const xla::Shape scalar = xla::ShapeUtil::MakeShape(type, {});
  combine(Value(xla::Parameter(inner.get(), 0, scalar, "a")),
          Value(xla::Parameter(inner.get(), 1, scalar, "b")));
  return inner->BuildAndNoteError();
}

// `accumulators` may be empty.
template <typename T>
void MeasureAll(const std::vector<xla::XlaOp>& gradients,
                const std::vector<xla::XlaOp>& accumulators,
                const HloDouble& scale, const HloBoolean& enabled,
                tensorflow::XlaOpKernelContext* context) {
  using V = ComputeType<T>;
  xla::XlaBuilder* const builder = context->builder();
  const xla::XlaComputation sum = Combining<HloDouble>(
      builder, xla::F64, [](HloDouble a, HloDouble b) { return a + b; });
  const xla::XlaComputation all = Combining<HloBoolean>(
      builder, xla::PRED, [](HloBoolean a, HloBoolean b) { return a && b; });
  std::vector<xla::XlaOp> sums, finite;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const V gradient = HloConvert::Widen(T(gradients[i]));
    const V x = accumulators.empty()
                    ? MeasuredValue(V(scale), gradient)
                    : MeasuredValue(V(scale), gradient, V(accumulators[i]));
    const HloDouble sum_of_squares(
        xla::ReduceAll(Square(x).In(builder), HloDouble(0).In(builder), sum));
    const HloBoolean all_finite(xla::ReduceAll(
        IsFinite(x).In(builder), HloBoolean(true).In(builder), all));
    const auto result = [&](const auto& measured, const auto& of_none) {
      return xla::Reshape(Select(enabled, measured, of_none).In(builder), {1});
    };
    sums.push_back(result(sum_of_squares, HloDouble(0)));
    finite.push_back(result(all_finite, HloBoolean(true)));
  }
  context->SetOutput(0, xla::ConcatInDim(builder, sums, 0));
  context->SetOutput(1, xla::ConcatInDim(builder, finite, 0));
}

}  // namespace

LoweredMeasureOp::LoweredMeasureOp(tensorflow::OpKernelConstruction* context)
    : XlaOpKernel(context) {
  OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
}

void LoweredMeasureOp::Compile(tensorflow::XlaOpKernelContext* context) {
  const absl::StatusOr<InputList> list = ListOf(context, "gradients");
  OP_REQUIRES_OK(context, list.status());
  std::vector<xla::XlaOp> gradients, accumulators;
  std::vector<tensorflow::TensorShape> shapes;
  for (int i = list->begin; i < list->begin + list->count; ++i) {
    // One that doesn't fit is for the op that applies it to refuse.
    xla::XlaOp gradient, fits;
    OP_REQUIRES_OK(context, ReadTensor(context, i, &gradient, &fits));
    gradients.push_back(gradient);
    const absl::StatusOr<tensorflow::TensorShape> shape = ShapeOf(context, i);
    OP_REQUIRES_OK(context, shape.status());
    shapes.push_back(*shape);
  }
  OP_REQUIRES_OK(context, ReadAccumulators(context, dtype_, shapes, "gradients",
                                           &accumulators));
  HloDouble scale;
  OP_REQUIRES_OK(context, ReadHloScalar(context, "gradient_scale", &scale));
  HloBoolean enabled;
  OP_REQUIRES_OK(context, ReadHloScalar(context, "enabled", &enabled));
  OP_REQUIRES_OK(context, WithHloType(dtype_, [&](auto type) {
                   MeasureAll<decltype(type)>(gradients, accumulators, scale,
                                              enabled, context);
                   return absl::OkStatus();
                 }));
}

}  // namespace tf_opt
