// From a launch to the engine on the CPU.
#ifndef TF_OPT_CC_KERNELS_APPLY_ON_CPU_H_
#define TF_OPT_CC_KERNELS_APPLY_ON_CPU_H_

#include "absl/status/status.h"
#include "tf_opt/cc/kernels/apply_attributes.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/cpu_threads.h"
#include "tf_opt/cc/kernels/numbers.h"

namespace tf_opt {

// Checks the numbers and applies the optimizer's rule. After an error nothing
// has been written.
absl::Status ApplyOnCpu(const ApplyAttributes& attributes,
                        const StepNumbers& numbers, const ApplyLaunch& launch,
                        const CpuThreads& threads);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_APPLY_ON_CPU_H_
