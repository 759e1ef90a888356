// The numbers of a step: inputs of a running op, in the device's memory.
#ifndef TF_OPT_CC_KERNELS_NUMBERS_H_
#define TF_OPT_CC_KERNELS_NUMBERS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/apply_attributes.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/rules/rule_info.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Finds a scalar.
absl::Status FindScalar(tensorflow::OpKernelContext* context, const char* name,
                        const void** data);

// Finds the numbers that are data of a launch: its row and its vectors.
absl::Status FindVectors(tensorflow::OpKernelContext* context,
                         ApplyLaunch* launch);

// Reads the seed, which is on the host.
absl::Status ReadSeed(tensorflow::OpKernelContext* context, int64_t* seed);

// The numbers of a step on a CPU.
struct StepNumbers {
  // Reads all numbers, and finds those that are data of the launch.
  absl::Status Read(const ApplyAttributes& attributes,
                    tensorflow::OpKernelContext* context, ApplyLaunch* launch);

  // Checks the ranges of the numbers.
  absl::Status CheckRanges(const RuleInfo& rule) const;

  RuleValues values;
  FrameInputs frame;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_NUMBERS_H_
