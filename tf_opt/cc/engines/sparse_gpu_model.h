// Sparse gradients where a GPU's engines read them, for their tests.
#ifndef TF_OPT_CC_ENGINES_SPARSE_GPU_MODEL_H_
#define TF_OPT_CC_ENGINES_SPARSE_GPU_MODEL_H_

#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/engines/sparse_model.h"

namespace tf_opt {

// The rows that a model says, as numbers of a type.
template <typename Index, typename T>
struct GpuSlicesModel {
  explicit GpuSlicesModel(const SparseModel<T>& model)
      : rows(model.rows()),
        width(model.width()),
        indices(model.indices().begin(), model.indices().end()),
        more_rows(model.more_rows().begin(), model.more_rows().end()) {}

  GpuSlices Slices() const {
    GpuSlices slices;
    slices.indices = indices.data();
    slices.count = indices.size();
    slices.accumulated_rows = more_rows.data();
    slices.accumulated_count = more_rows.size();
    slices.wide = sizeof(Index) == sizeof(int64_t);
    slices.rows = rows;
    slices.width = width;
    return slices;
  }

  int64_t rows, width;
  std::vector<Index> indices, more_rows;
};

// Of some tables.
template <typename Index, typename T>
struct GpuSlicesModels {
  explicit GpuSlicesModels(const std::vector<SparseModel<T>>& models) {
    for (const auto& model : models) all.emplace_back(model);
  }

  std::vector<GpuSlices> Slices() const {
    std::vector<GpuSlices> slices;
    for (const auto& one : all) slices.push_back(one.Slices());
    return slices;
  }

  std::vector<GpuSlicesModel<Index, T>> all;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_SPARSE_GPU_MODEL_H_
