// Sparse gradients for the engine for GPUs. Their rows are on the device, so an
// op learns of a wrong one only later: the next step of the same op tells.
#ifndef TF_OPT_CC_KERNELS_SLICES_ON_GPU_H_
#define TF_OPT_CC_KERNELS_SLICES_ON_GPU_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/kernels/slices.h"

namespace tf_opt {

// Where the device writes the first wrong row of a kernel's steps.
class WrongRowReport {
 public:
  // Finds `place` for the next step; fails if an earlier step had a wrong row.
  absl::Status Open(tensorflow::OpKernelContext* context,
                    const SliceAttributes& attributes, BadRow** place) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (place_ == nullptr) {
      tensorflow::AllocatorAttributes host;
      host.set_on_host(true);
      host.set_gpu_compatible(true);
      // Never released: the device may still write when the kernel is gone.
      auto* const memory = new tensorflow::Tensor;
      TF_RETURN_IF_ERROR(context->allocate_temp(
          tensorflow::DT_UINT8, {int64_t{sizeof(BadRow)}}, memory, host));
      place_ = new (memory->data()) BadRow;
    }
    *place = place_;
    if (place_->table == 0) return absl::OkStatus();
    const BadRow bad = *place_;
    place_->table = 0;
    const WrongRow wrong = {bad.has_values ? "indices" : "accumulated_rows",
                            bad.row, bad.at};
    const absl::Status error = wrong.Error(attributes, bad.table - 1, bad.rows);
    return absl::InvalidArgumentError(
        absl::StrCat(error.message(), ", in an earlier step on this GPU"));
  }

 private:
  std::mutex mutex_;
  BadRow* place_ = nullptr;
};

// Returns slices as the engine takes them; table_rows[i] are a table's rows.
inline absl::Status SlicesOnGpu(const std::vector<Slices>& slices,
                                const std::vector<int64_t>& table_rows,
                                std::vector<GpuSlices>* found) {
  int64_t entries = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slices& one = slices[i];
    constexpr int64_t kMostRows = UINT32_MAX - 2;
    if (table_rows[i] < 0 || table_rows[i] > kMostRows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`variables[", i, "]` must have in [0, ", kMostRows,
          "] rows to have a sparse gradient on a GPU, got ", table_rows[i]));
    }
    found->push_back({one.values.data, one.indices.data, one.indices.rows,
                      one.accumulated_rows.data, one.accumulated_rows.rows,
                      one.indices.type == tensorflow::DT_INT64, table_rows[i]});
    entries += found->back().entries();
  }
  if (entries <= INT32_MAX) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`indices` must have at most ", INT32_MAX,
                   " elements together on a GPU, got ", entries));
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SLICES_ON_GPU_H_
