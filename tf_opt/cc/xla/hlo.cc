#include "tf_opt/cc/xla/hlo.h"

#include "absl/status/statusor.h"
#include "xla/shape.h"

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

bool IsConstantly(const HloBoolean& condition, bool value) {
  return condition.is_constant() && condition.constant() == value;
}

}  // namespace tf_opt
