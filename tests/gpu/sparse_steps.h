// A step over tables on the device whose gradients say only some rows, beside
// one with the dense gradients that they mean: the bits must be the same.
#ifndef TF_OPT_TESTS_GPU_SPARSE_STEPS_H_
#define TF_OPT_TESTS_GPU_SPARSE_STEPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <set>
#include <vector>

#include "tests/gpu/arena.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/device.h"
#include "tf_opt/cc/engines/dense_gpu_launch.h"
#include "tf_opt/cc/engines/dense_model.h"
#include "tf_opt/cc/engines/gpu_rules.h"
#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/engines/measure_model.h"
#include "tf_opt/cc/engines/measure_sparse_gpu_launch.h"
#include "tf_opt/cc/engines/sparse_gpu_launch.h"
#include "tf_opt/cc/engines/sparse_model.h"

namespace tf_opt {

// Slices on the device, the same as on the host.
template <typename T>
class DeviceSlices {
 public:
  // Reserves their arrays; `tables` must outlive this.
  DeviceSlices(const std::vector<SparseModel<T>>& tables, Arena* arena)
      : tables_(tables), arena_(*arena) {
    for (const auto& table : tables) {
      values_.push_back(arena->Add(
          table.indices().size() * table.width() * sizeof(T), sizeof(T)));
      indices_.push_back(arena->Add(8 * table.indices().size(), 0));
      more_rows_.push_back(arena->Add(8 * table.more_rows().size(), 0));
    }
  }

  // After the arena's memory has been allocated.
  void Fill() {
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      const auto& table = tables_[i];
      std::copy_n(table.values(), table.indices().size() * table.width(),
                  arena_.OnHost<T>(values_[i]));
      std::copy(table.indices().begin(), table.indices().end(),
                arena_.OnHost<int64_t>(indices_[i]));
      std::copy(table.more_rows().begin(), table.more_rows().end(),
                arena_.OnHost<int64_t>(more_rows_[i]));
    }
  }

  // Of the last table that has any the last one, on the host.
  int64_t* LastIndex() {
    for (std::size_t i = tables_.size(); i-- > 0;) {
      const auto& indices = tables_[i].indices();
      if (indices.empty()) continue;
      return arena_.OnHost<int64_t>(indices_[i]) + indices.size() - 1;
    }
    return nullptr;
  }

  T* Values(std::size_t i) { return arena_.OnDevice<T>(values_[i]); }

  std::vector<GpuSlices> Slices() {
    std::vector<GpuSlices> all(tables_.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].indices = arena_.OnDevice<int64_t>(indices_[i]);
      all[i].count = tables_[i].indices().size();
      all[i].accumulated_rows = arena_.OnDevice<int64_t>(more_rows_[i]);
      all[i].accumulated_count = tables_[i].more_rows().size();
      all[i].wide = true;
      all[i].rows = tables_[i].rows();
      all[i].width = tables_[i].width();
    }
    return all;
  }

 private:
  const std::vector<SparseModel<T>>& tables_;
  Arena& arena_;
  std::vector<std::size_t> values_, indices_, more_rows_;
};

template <typename T, typename Case, typename Rule>
class SparseSteps {
 public:
  using V = ComputeType<T>;
  static constexpr int kSlots = Rule::kSlots;

  // `tables` must outlive this.
  SparseSteps(const std::vector<SparseModel<T>>& tables, const Modes& modes)
      : tables_(tables), modes_(modes), slices_(tables, &arena_) {
    for (const auto& table : tables) {
      const int64_t size = table.rows() * table.width();
      dense_.push_back(arena_.Add(size * sizeof(T), 0));
      for (auto* state : {&sparse_state_, &dense_state_}) {
        state->push_back(arena_.Add(size * sizeof(T), sizeof(T)));
        for (int k = 0; k < kSlots; ++k) {
          state->push_back(arena_.Add(Rows(k) * size * sizeof(V), 0));
        }
      }
    }
    numbers_ = arena_.Add(8 * (std::size(Case::kScalars) + 1), 0);
    dense_workspace_ = arena_.Add(GpuRules<Rule>::Bytes(tables.size()), 0);
    arena_.Allocate();
    Fill();
    // Of the device's memory, as what a sort needs depends on the device.
    workspace_ = AllocateOnDevice(SparseWorkspaceBytes<Rule>(slices_.Slices()));
    if (workspace_ == nullptr) Require("too little memory");
    arena_.Upload();
    before_ = arena_.host();
  }

  const char* Sparse(bool lazy, void* stream) {
    auto tensors = Tensors(sparse_state_);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      tensors[i].operands[kGradient] = slices_.Values(i);
    }
    return ApplySparseGpu<T, Rule>(tensors, slices_.Slices(), Inputs(), lazy,
                                   workspace_.get(), stream);
  }

  const char* Dense(void* stream) {
    auto tensors = Tensors(dense_state_);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      tensors[i].operands[kGradient] = arena_.OnDevice<T>(dense_[i]);
    }
    return ApplyDenseGpu<T, Rule>(
        tensors, Inputs(), arena_.OnDevice<unsigned char>(dense_workspace_),
        stream);
  }

  // After both: whether the tables and slots are the same, or with `lazy` those
  // of the rows that occur, the others being as they were.
  bool AreAlike(bool lazy) {
    Download();
    bool alike = arena_.PaddingIsUntouched();
    std::size_t array = 0;
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      const auto& table = tables_[i];
      const std::set<int64_t> occurring = table.OccurringRows();
      for (int k = -1; k < kSlots; ++k, ++array) {
        const std::size_t bytes =
            table.width() * (k < 0 ? sizeof(T) : sizeof(V));
        const int64_t rows = table.rows();
        for (int64_t j = 0; j < (k < 0 ? 1 : Rows(k)) * rows; ++j) {
          const std::size_t at = sparse_state_[array] + j * bytes;
          const bool applied = !lazy || occurring.count(j % rows) > 0;
          const unsigned char* const expected =
              applied ? &arena_.host()[dense_state_[array] + j * bytes]
                      : &before_[at];
          alike =
              alike && std::memcmp(&arena_.host()[at], expected, bytes) == 0;
        }
      }
    }
    return alike;
  }

  // Whether a row that isn't there leaves all tables as they were.
  bool RefusesWrongRow(bool lazy) {
    *slices_.LastIndex() = -1;
    arena_.Upload();
    before_ = arena_.host();
    Require(Sparse(lazy, nullptr));
    Download();
    return arena_.host() == before_;
  }

 private:
  static int64_t Rows(int k) { return k == 1 && Case::kRows ? Case::kRows : 1; }

  void Fill() {
    slices_.Fill();
    std::size_t array = 0;
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      const int64_t size = tables_[i].rows() * tables_[i].width();
      const std::vector<T> dense = tables_[i].Dense();
      std::copy(dense.begin(), dense.end(), arena_.OnHost<T>(dense_[i]));
      for (int k = -1; k < kSlots; ++k, ++array) {
        for (const auto* state : {&sparse_state_, &dense_state_}) {
          if (k < 0) {
            T* const values = arena_.OnHost<T>((*state)[array]);
            for (int64_t j = 0; j < size; ++j) {
              values[j] = DenseModel<T, 1>::Small(j);
            }
          } else {
            V* const values = arena_.OnHost<V>((*state)[array]);
            for (int64_t j = 0; j < Rows(k) * size; ++j) {
              values[j] = (j % 1000) * 1e-3;
            }
          }
        }
      }
    }
    const auto hyperparameters = Case::At(2, modes_);
    unsigned char* at = arena_.OnHost<unsigned char>(numbers_);
    for (const auto& input : Case::kScalars) {
      std::memcpy(at, input.Address(hyperparameters), 8);
      at += 8;
    }
    const int64_t row = 1;
    std::memcpy(at, &row, 8);
  }

  GpuInputsOf<Rule> Inputs() {
    GpuInputsOf<Rule> inputs;
    inputs.scalars.known = Case::At(2, modes_);
    const double* at = arena_.OnDevice<double>(numbers_);
    for (const auto& input : Case::kScalars) inputs.scalars.Add(input, at++);
    if (Case::kRows > 0) {
      inputs.SetRow("batch_index", Case::kRows,
                    reinterpret_cast<const int64_t*>(at));
    }
    return inputs;
  }

  std::vector<DenseTensor<T, kSlots>> Tensors(
      const std::vector<std::size_t>& state) {
    std::vector<DenseTensor<T, kSlots>> tensors(tables_.size());
    std::size_t array = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      tensors[i].size = tables_[i].rows() * tables_[i].width();
      tensors[i].operands[kVariable] = arena_.OnDevice<T>(state[array++]);
      for (int k = 0; k < kSlots; ++k) {
        tensors[i].operands[kFrameOperandCount + k] =
            arena_.OnDevice<V>(state[array++]);
      }
    }
    return tensors;
  }

  void Download() {
    WaitForDevice();
    arena_.Download();
  }

  const std::vector<SparseModel<T>>& tables_;
  const Modes modes_;
  Arena arena_;
  DeviceSlices<T> slices_;
  DeviceMemory workspace_;
  // Of each table the variable, then its slots.
  std::vector<std::size_t> sparse_state_, dense_state_;
  std::vector<std::size_t> dense_;
  std::size_t numbers_, dense_workspace_;
  std::vector<unsigned char> before_;
};

// Whether what is measured of slices has the bits of the dense gradients that
// they mean.
template <typename T>
bool SparseMeasuresAreRight(const std::vector<SparseModel<T>>& tables) {
  Arena arena;
  DeviceSlices<T> slices(tables, &arena);
  const std::size_t scale = arena.Add(sizeof(double), 0);
  const std::size_t enabled = arena.Add(sizeof(bool), 0);
  const std::size_t sums = arena.Add(tables.size() * sizeof(double), 0);
  const std::size_t finite = arena.Add(tables.size() * sizeof(bool), 0);
  arena.Allocate();
  slices.Fill();
  *arena.OnHost<double>(scale) = 0.3;
  *arena.OnHost<bool>(enabled) = true;
  arena.Upload();
  std::vector<MeasuredTensor<T>> measured;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    measured.push_back(
        {slices.Values(i), nullptr, tables[i].rows() * tables[i].width()});
  }
  const auto on_device = slices.Slices();
  const DeviceMemory workspace =
      AllocateOnDevice(MeasureSparseWorkspaceBytes(measured, on_device));
  Require(MeasureSparseGradientsGpu<T>(
      measured, on_device, /*lazy=*/false,
      {arena.OnDevice<double>(scale), arena.OnDevice<bool>(enabled),
       arena.OnDevice<double>(sums), arena.OnDevice<bool>(finite)},
      workspace.get(), nullptr));
  WaitForDevice();
  arena.Download();
  bool right = arena.PaddingIsUntouched();
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const std::vector<T> dense = tables[i].Dense();
    const Measure expected = ExpectedMeasure<T>(
        {dense.data(), nullptr, static_cast<int64_t>(dense.size())}, 0.3);
    right = right &&
            SameBits(arena.OnHost<double>(sums)[i], expected.sum_of_squares) &&
            arena.OnHost<bool>(finite)[i] == expected.finite;
  }
  return right;
}

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_SPARSE_STEPS_H_
