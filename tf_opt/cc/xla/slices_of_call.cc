#include "tf_opt/cc/xla/slices_of_call.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_opt {

absl::Status FindSlices(const FfiCall& call, const SliceAttributes& attributes,
                        int64_t first, int count,
                        std::vector<RowSlices>* slices) {
  bool are_accumulated = false;
  TF_RETURN_IF_ERROR(call.GetAttr("num_accumulated_rows", &are_accumulated));
  const int64_t arrays = (are_accumulated ? 3 : 2) * int64_t{count};
  if (call.argument_count() != first + arrays + 1) return OtherArguments();
  const auto* const rows =
      static_cast<const int64_t*>(call.argument(first + arrays).data);
  const auto numbers = [&](int64_t k) -> RowNumbers {
    const FfiArray array = call.argument(first + k);
    return {array.data, rows[k], array.type == tensorflow::DT_INT64};
  };
  slices->resize(count);
  for (int i = 0; i < count; ++i) {
    RowSlices& one = (*slices)[i];
    const FfiArray values = call.argument(first + i);
    one.values = values.data;
    one.width = values.width;
    one.indices = numbers(count + i);
    if (are_accumulated) one.accumulated_rows = numbers(2 * count + i);
    if (rows[i] == one.indices.count) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "`gradients[", i, "]`", attributes.Name(i),
        " must have one row of `variables[", i, "]` for each of the ",
        one.indices.count, " `indices[", i, "]`, got ", rows[i]));
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
