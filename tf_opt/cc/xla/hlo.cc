#include "tf_opt/cc/xla/hlo.h"

#include <utility>

#include "absl/status/statusor.h"
#include "xla/shape.h"
#include "xla/shape_util.h"

namespace tf_opt {

xla::XlaOp BroadcastTo(xla::XlaOp operand, xla::XlaOp like) {
  xla::XlaBuilder* const builder = operand.builder();
  return builder->ReportErrorOrReturn([&]() -> absl::StatusOr<xla::XlaOp> {
    const absl::StatusOr<xla::Shape> from = builder->GetShape(operand);
    if (!from.ok()) return from.status();
    const absl::StatusOr<xla::Shape> to = builder->GetShape(like);
    if (!to.ok()) return to.status();
    if (!from->dimensions().empty() || to->dimensions().empty()) {
      return operand;
    }
    return xla::Broadcast(operand, to->dimensions());
  });
}

xla::XlaComputation Combining(xla::XlaBuilder* builder, xla::PrimitiveType type,
                              const Combination& combine) {
  const auto inner = builder->CreateSubBuilder("combine");
  const xla::Shape scalar = xla::ShapeUtil::MakeShape(type, {});
  const xla::XlaOp combined =
      combine(xla::Parameter(inner.get(), 0, scalar, "a"),
              xla::Parameter(inner.get(), 1, scalar, "b"));
  absl::StatusOr<xla::XlaComputation> built = inner->Build(combined);
  if (built.ok()) return std::move(*built);
  builder->ReportError(built.status());
  return xla::XlaComputation();
}

HloBoolean HoldsForAll(const HloBoolean& condition) {
  xla::XlaBuilder* const builder = condition.builder();
  const xla::XlaComputation both =
      Combining(builder, xla::PRED,
                [](xla::XlaOp a, xla::XlaOp b) { return xla::And(a, b); });
  return HloBoolean(xla::ReduceAll(condition.In(builder),
                                   HloBoolean(true).In(builder), both));
}

bool IsConstantly(const HloBoolean& condition, bool value) {
  return condition.is_constant() && condition.constant() == value;
}

}  // namespace tf_opt
