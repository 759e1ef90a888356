// The GPU engines on a machine without a GPU, for tests: the threads of the
// kernels run one after the other. Slow.
#ifndef TF_OPT_CC_ENGINES_GPU_GPU_EMULATION_INL_H_
#define TF_OPT_CC_ENGINES_GPU_GPU_EMULATION_INL_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/emulated_convert-inl.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/gpu/measure_gpu.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

constexpr int kEmulatedThreads = 96;

template <typename T, typename Rule>
const char* ApplyDenseGpu(const std::vector<DenseTensor<T>>& tensors,
                          const GpuInputsOf<Rule>& inputs, void* workspace,
                          void* stream) {
  const GpuRules<Rule> rules(workspace);
  for (int64_t i = 0; i < static_cast<int64_t>(tensors.size()); ++i) {
    rules.Compute(inputs, i);
  }
  for (const auto& batch : PlanGpuBatches(tensors)) {
    for (int32_t block = 0; block < batch.tiles(); ++block) {
      for (int thread = 0; thread < kEmulatedThreads; ++thread) {
        GpuThread<EmulatedConvert, T, Rule>::Run(batch, rules, block, thread,
                                                 kEmulatedThreads);
      }
    }
  }
  return nullptr;
}

// Measure of a warp's lanes; lanes_of(thread) are those of a thread.
template <typename LanesOf>
Measure AddEmulatedWarp(const LanesOf& lanes_of) {
  double sums[kLanes];
  bool finite = true;
  for (int thread = 0; thread < kWarpThreads; ++thread) {
    const GpuLanes lanes = lanes_of(thread);
    std::copy_n(lanes.sums, kLanesPerThread, sums + thread * kLanesPerThread);
    finite &= lanes.finite;
  }
  return {AddLanes<kLanes>(sums), finite};
}

template <typename T>
const char* MeasureGradientsGpu(const std::vector<MeasuredTensor<T>>& tensors,
                                const GpuMeasureArguments& arguments,
                                void* workspace, void* stream) {
  const auto tiles = static_cast<Measure*>(workspace);
  for (const auto& batch : PlanGpuBatches(tensors)) {
    Measure* const batch_tiles = tiles + batch.first_tile;
    for (int32_t k = 0; k < batch.tiles(); ++k) {
      batch_tiles[k] = AddEmulatedWarp([&](int thread) {
        return GpuTileThread<EmulatedConvert, T>::Run(batch, arguments, k,
                                                      thread);
      });
    }
    for (int i = 0; i < batch.count; ++i) {
      const Measure measure = AddEmulatedWarp([&](int thread) {
        return AddTilesInThread(batch_tiles + batch.begin(i),
                                batch.ends[i] - batch.begin(i), thread);
      });
      arguments.sums_of_squares[batch.first + i] =
          CanonicalNan(measure.sum_of_squares);
      arguments.finite[batch.first + i] = measure.finite;
    }
  }
  return nullptr;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_GPU_EMULATION_INL_H_
