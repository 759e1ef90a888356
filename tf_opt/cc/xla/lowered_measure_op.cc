#include "tf_opt/cc/xla/lowered_measure_op.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/xla/hlo.h"
#include "tf_opt/cc/xla/hlo_element.h"
#include "tf_opt/cc/xla/hlo_inputs.h"
#include "tf_opt/cc/xla/hlo_rows.h"
#include "tf_opt/cc/xla/lowered_slices.h"
#include "tf_opt/cc/xla/measured_operands.h"
#include "tf_opt/cc/xla/op_inputs.h"
#include "tf_opt/cc/xla/slice_operands.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/hlo/builder/xla_computation.h"

namespace tf_opt {
namespace {

using ::tensorflow::TensorShape;
using ::tensorflow::XlaOpKernelContext;

// One gradient, and what was accumulated of it.
struct Measured {
  xla::XlaOp gradient;
  xla::XlaOp accumulator;    // Not valid: nothing was.
  HloBoolean counts = true;  // Or for each element whether it counts.
  // False makes it measure as not finite: no program can say what is wrong.
  HloBoolean is_valid = true;
};

// What is measured of a table's slices: the rows that are said; or all of the
// table, where something was accumulated in any row.
template <typename T>
Measured OfSlices(const LoweredSlices& slices, xla::XlaOp accumulator,
                  bool lazy, const TensorShape& table) {
  Measured measured;
  measured.is_valid = slices.are_valid();
  if (accumulator.valid() && (!lazy || table.dim_size(0) == 0)) {
    measured.gradient = slices.Dense<T>();
    measured.accumulator = accumulator;
    return measured;
  }
  measured.gradient = slices.Sums<T>();
  if (accumulator.valid()) {
    measured.accumulator = GatherRows(accumulator, slices.rows());
  }
  measured.counts = HloBoolean(
      BroadcastRows(slices.are_first(), DimensionsOf(measured.gradient)));
  return measured;
}

template <typename T>
void MeasureAll(const std::vector<Measured>& all, const HloDouble& scale,
                const HloBoolean& enabled, XlaOpKernelContext* context) {
  using V = ComputeType<T>;
  xla::XlaBuilder* const builder = context->builder();
  const xla::XlaComputation sum =
      Combining(builder, xla::F64,
                [](xla::XlaOp a, xla::XlaOp b) { return xla::Add(a, b); });
  std::vector<xla::XlaOp> sums, finite;
  for (const Measured& measured : all) {
    const V gradient = HloConvert::Widen(T(measured.gradient));
    const V x = measured.accumulator.valid()
                    ? MeasuredValue(V(scale), gradient, V(measured.accumulator))
                    : MeasuredValue(V(scale), gradient);
    const HloDouble square = Select(measured.counts, Square(x), HloDouble(0));
    const HloBoolean is_finite =
        Select(measured.counts, IsFinite(x), HloBoolean(true));
    const HloDouble sum_of_squares(
        xla::ReduceAll(square.In(builder), HloDouble(0).In(builder), sum));
    const HloBoolean all_finite = HoldsForAll(is_finite);
    const auto result = [&](const auto& found, const auto& of_none) {
      return xla::Reshape(Select(enabled, found, of_none).In(builder), {1});
    };
    sums.push_back(result(sum_of_squares, HloDouble(0)));
    finite.push_back(result(all_finite && measured.is_valid, HloBoolean(true)));
  }
  context->SetOutput(0, xla::ConcatInDim(builder, sums, 0));
  context->SetOutput(1, xla::ConcatInDim(builder, finite, 0));
}

}  // namespace

LoweredMeasureOp::LoweredMeasureOp(tensorflow::OpKernelConstruction* context,
                                   bool sparse)
    : XlaOpKernel(context), sparse_(sparse) {
  OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
  OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
  if (!sparse_) return;
  OP_REQUIRES_OK(context, slice_attributes_.Read(*context));
}

void LoweredMeasureOp::Compile(XlaOpKernelContext* context) {
  std::vector<xla::XlaOp> gradients;
  std::vector<xla::XlaOp> counts;
  std::vector<TensorShape> shapes;
  if (sparse_) {
    std::vector<int64_t> rows;
    OP_REQUIRES_OK(context, ReadTableRows(context, count_, &rows));
    OP_REQUIRES_OK(context, ReadTableShapes(context, rows, &shapes));
  } else {
    OP_REQUIRES_OK(context,
                   ReadGradients(context, &gradients, &counts, &shapes));
  }
  std::vector<xla::XlaOp> accumulators;
  OP_REQUIRES_OK(context, ReadAccumulators(context, dtype_, shapes,
                                           sparse_ ? "variables" : "gradients",
                                           &accumulators));
  accumulators.resize(shapes.size());  // Those that aren't there: not valid.
  SliceOperands slices;
  if (sparse_) {
    OP_REQUIRES_OK(context, slices.Read(context, slice_attributes_, shapes));
  }
  HloDouble scale;
  OP_REQUIRES_OK(context, ReadHloScalar(context, "gradient_scale", &scale));
  HloBoolean enabled;
  OP_REQUIRES_OK(context, ReadHloScalar(context, "enabled", &enabled));
  OP_REQUIRES_OK(
      context, WithHloType(dtype_, [&](auto type) {
        using T = decltype(type);
        std::vector<Measured> all;
        for (std::size_t i = 0; i < shapes.size(); ++i) {
          if (!sparse_) {
            all.push_back({gradients[i], accumulators[i]});
            continue;
          }
          const auto sizes = shapes[i].dim_sizes();
          const LoweredSlices merged(slices, i, {sizes.begin(), sizes.end()});
          all.push_back(OfSlices<T>(merged, accumulators[i],
                                    slice_attributes_.lazy(), shapes[i]));
        }
        MeasureAll<T>(all, scale, enabled, context);
        return absl::OkStatus();
      }));
}

}  // namespace tf_opt
