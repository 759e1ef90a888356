#include "tf_opt/cc/xla/slice_arguments.h"

#include <vector>

#include "tensorflow/core/platform/errors.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

absl::Status AddSlices(const SliceOperands& slices, CustomCall* call) {
  std::vector<xla::XlaOp> counts;
  for (const auto* arrays :
       {&slices.values, &slices.indices, &slices.accumulated_rows}) {
    for (const SliceArray& array : *arrays) {
      counts.push_back(xla::Reshape(array.count, {1}));
      TF_RETURN_IF_ERROR(call->AddArgument(array.value));
    }
  }
  return call->AddArgument(
      xla::ConcatInDim(counts[0].builder(), counts, /*dimension=*/0));
}

}  // namespace tf_opt
