// Rules and variable types for the tests of engines.
#ifndef TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_
#define TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_

#include <string>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/asgd.h"
#include "tf_opt/cc/rules/averaged_sgd.h"
#include "tf_opt/cc/rules/nadam.h"

namespace tf_opt {

template <typename T_, typename Description_, typename Rule_>
struct RuleCase {
  using T = T_;
  using Description = Description_;
  using Rule = Rule_;

  // Hyperparameters that make every part of the rule count.
  static typename Description::Hyperparameters Hyperparameters() {
    typename Description::Hyperparameters hyperparameters;
    for (const auto& input : Description::kScalars) {
      if (input.integer != nullptr) hyperparameters.*input.integer = 3;
      if (std::string(input.name) == "t0") hyperparameters.*input.number = 0;
    }
    return hyperparameters;
  }
};

#define TF_OPT_RULE_CASES(T, V)                            \
  RuleCase<T, Adam, AdamRule<V, false, false>>,            \
      RuleCase<T, Adam, AdamRule<V, false, true>>,         \
      RuleCase<T, Adam, AdamRule<V, true, false>>,         \
      RuleCase<T, Adam, AdamRule<V, true, true>>,          \
      RuleCase<T, NAdam, NAdamRule<V, false>>,             \
      RuleCase<T, NAdam, NAdamRule<V, true>>,              \
      RuleCase<T, Asgd, AsgdRule<V, false>>,               \
      RuleCase<T, Asgd, AsgdRule<V, true>>,                \
      RuleCase<T, AveragedSgd, AveragedSgdRule<V, false>>, \
      RuleCase<T, AveragedSgd, AveragedSgdRule<V, true>>

using AllRules = testing::Types<
    TF_OPT_RULE_CASES(Half, float), TF_OPT_RULE_CASES(BFloat16, float),
    TF_OPT_RULE_CASES(float, float), TF_OPT_RULE_CASES(double, double)>;

#undef TF_OPT_RULE_CASES

// Every rule once, and every type: for what doesn't depend on their
// combination.
using SomeRules = testing::Types<
    RuleCase<Half, Adam, AdamRule<float, false, false>>,
    RuleCase<BFloat16, Adam, AdamRule<float, false, true>>,
    RuleCase<float, Adam, AdamRule<float, true, false>>,
    RuleCase<double, Adam, AdamRule<double, true, true>>,
    RuleCase<double, NAdam, NAdamRule<double, false>>,
    RuleCase<Half, NAdam, NAdamRule<float, true>>,
    RuleCase<float, Asgd, AsgdRule<float, false>>,
    RuleCase<BFloat16, Asgd, AsgdRule<float, true>>,
    RuleCase<BFloat16, AveragedSgd, AveragedSgdRule<float, false>>,
    RuleCase<float, AveragedSgd, AveragedSgdRule<float, true>>>;

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_
