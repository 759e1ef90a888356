// The numbers of a step, in the device's memory.
#ifndef TF_OPT_CC_KERNELS_NUMBERS_H_
#define TF_OPT_CC_KERNELS_NUMBERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/apply_attributes.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/rules/rule_info.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// A running op (OpNumbers) or a call inside XLA. A call has no names: its
// numbers are in the order of the op's inputs.
class NumberSource {
 public:
  virtual ~NumberSource() = default;
  virtual absl::Status Scalar(const char* name, const void** data) = 0;
  virtual absl::Status OfVariables(const char* name, int count,
                                   PerVariable* vector) = 0;
};

// Finds numbers among the inputs of a running op.
class OpNumbers : public NumberSource {
 public:
  explicit OpNumbers(tensorflow::OpKernelContext* context)
      : context_(context) {}

  absl::Status Scalar(const char* name, const void** data) override;
  absl::Status OfVariables(const char* name, int count,
                           PerVariable* vector) override;

 private:
  tensorflow::OpKernelContext* const context_;
};

// Finds the numbers that are data of a launch: its row and its vectors.
absl::Status FindVectors(NumberSource& source, ApplyLaunch* launch);

// Reads the seed, which is on the host.
absl::Status ReadSeed(NumberSource& source, int64_t* seed);

// The numbers of a step on a CPU.
struct StepNumbers {
  // Reads all numbers, and finds those that are data of the launch.
  absl::Status Read(const ApplyAttributes& attributes, NumberSource& source,
                    ApplyLaunch* launch);

  // Checks the ranges of the numbers.
  absl::Status CheckRanges(const RuleInfo& rule) const;

  RuleValues values;
  FrameInputs frame;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_NUMBERS_H_
