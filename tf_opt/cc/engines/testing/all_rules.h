// Rules and variable types for the tests of engines.
#ifndef TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_
#define TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/rules/all_rules.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

using VariableTypes = std::tuple<Half, BFloat16, float, double>;

// A rule for variables of type T.
template <typename T_, typename Description, int kVariant>
struct RuleCase {
  using T = T_;
  using Rule = RuleOf<Description, ComputeType<T>, kVariant>;
};

template <typename... A, typename... B>
testing::Types<A..., B...> operator+(testing::Types<A...>,
                                     testing::Types<B...>);

template <typename Description, int kFirstType, int... kVariants>
auto CasesOf(std::integer_sequence<int, kVariants...>) -> testing::Types<
    RuleCase<std::tuple_element_t<(kFirstType + kVariants) % 4, VariableTypes>,
             Description, kVariants>...>;

// All variants of these rules, each with one type of variables, in turns: rules
// and types don't meet in the same code.
template <typename... Descriptions, int... kIndices>
auto TestCases(TypeList<Descriptions...>,
               std::integer_sequence<int, kIndices...>)
    -> decltype((
        ... + CasesOf<Descriptions, kIndices>(
                  std::make_integer_sequence<int, kVariants<Descriptions>>())));
template <typename... Descriptions>
auto TestCases(TypeList<Descriptions...> rules) -> decltype(TestCases(
    rules, std::make_integer_sequence<int, sizeof...(Descriptions)>()));

using TestedRules = decltype(TestCases(AllDescriptions()));

// The rules of step 3 for the tensors of a model, rows of which have widths[i]
// elements.
template <typename Rule, typename Model>
auto TestRules(Model* model, const std::vector<int64_t>& widths,
               const FrameInputs& frame, double gradient_factor,
               CpuTarget target) {
  const typename Rule::Scalars shared(
      HyperparametersAt<typename Rule::Description>(3));
  std::vector<CpuRule<typename Rule::Value>> rules;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const VariableInputs own{0.01 * i, 1.5, gradient_factor, double(i)};
    rules.emplace_back(FramedRule<Rule>(shared, frame, own), target);
    if (!Rule::kRowWise) continue;
    rules[i].row_states = model->row_states(i);
    rules[i].width = widths[i];
  }
  return rules;
}

// For loops that know no rule: none to three slots, one row-wise, one
// stacked. Each has two types.
using DifferentRules = decltype(TestCases(
    TypeList<Asgd, Adagrad, Sgd, Adam, Adagrad, Sgd, Adam, Asgd>()));

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_
