// Sparse gradients: slices, and the row of a table for each of them.
#ifndef TF_OPT_CC_KERNELS_SLICES_H_
#define TF_OPT_CC_KERNELS_SLICES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/kernels/variable_access.h"

namespace tf_opt {

// The attribute `tables` of ops that take slices.
struct TableNames {
  // Describes the i-th table in errors, after its index.
  std::string Of(int i) const {
    return i < static_cast<int>(names.size())
               ? absl::StrCat(" (of ", names[i], ")")
               : "";
  }

  std::vector<std::string> names;  // May be empty.
};

// Finds the slices of a running op and checks them against the shapes of their
// tables.
absl::Status FindSlices(tensorflow::OpKernelContext* context,
                        const TableNames& names,
                        const std::vector<tensorflow::TensorShape>& tables,
                        std::vector<TableSlices>* slices);

// The error for a row that is outside of its table.
absl::Status BadRowError(const Refusal& bad, const TableNames& names);

// Checks the numbers of rows and of entries.
absl::Status CheckCounts(const std::vector<TableSlices>& slices);

// Checks the rows of slices and sorts them, in `memory`, for the CPU engine.
absl::Status SortRows(const std::vector<TableSlices>& slices,
                      const TableNames& names, const CpuThreads& threads,
                      tensorflow::Tensor* memory,
                      std::vector<SparseGradient>* sorted);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SLICES_H_
