// The CPU engine for its callers: the rules of one optimizer over many tensors,
// without their types. It knows no formula: the caller passes raw pointers,
// what makes a rule for each tensor, and threads.
#ifndef TF_OPT_CC_ENGINES_CPU_APPLY_ON_CPU_H_
#define TF_OPT_CC_ENGINES_CPU_APPLY_ON_CPU_H_

#include <cstdint>
#include <tuple>
#include <vector>

#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// For variables of type T.
template <typename T>
using CpuRules = std::vector<CpuRule<ComputeType<T>>>;

// Bytes that an update moves for an element: it reads variable, gradient and
// slots and writes variable and slots.
template <typename T>
int64_t BytesPerElement(const CpuRules<T>& rules) {
  return 3 * sizeof(T) + 2 * rules[0].loops->slots * sizeof(ComputeType<T>);
}

// The host knows all numbers.
struct CpuStep : Step {
  std::vector<VariableInputs> own;  // Of each variable.
  // One for each variable if gradients are sparse.
  std::vector<SparseGradient> gradients;
  CpuThreads threads;
  CpuTarget target = ChosenCpuTarget();
};

// Makes an optimizer's rule for each variable and, where rows wait, the step
// that they miss. The numbers must be in their ranges. make_rules.cc defines it
// for each optimizer.
template <typename Description, typename V>
std::vector<CpuRule<V>> MakeRules(const CpuStep& step,
                                  std::vector<MissedStep>* missed);

// MakeRules of an optimizer.
template <typename V>
using RuleMaker = std::vector<CpuRule<V>> (*)(const CpuStep&,
                                              std::vector<MissedStep>*);
using RuleMakers = std::tuple<RuleMaker<float>, RuleMaker<double>>;

// Applies the rules that `makers` make, framed, to all variables.
void ApplyOnCpu(const CpuStep& step, const RuleMakers& makers);

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_APPLY_ON_CPU_H_
