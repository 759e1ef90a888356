// Rules and variable types for the tests of engines.
#ifndef TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_
#define TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_

#include <cstddef>
#include <tuple>
#include <utility>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/all_rules.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/type_list.h"

namespace tf_opt {

using VariableTypes = std::tuple<Half, BFloat16, float, double>;

// A rule for variables of type T.
template <typename T_, typename Description, int kVariant>
struct RuleCase {
  using T = T_;
  using Rule = RuleOf<Description, ComputeType<T>, kVariant>;
};

template <typename Description_, int kVariant_>
struct RuleVariant {
  using Description = Description_;
  static constexpr int kVariant = kVariant_;
};

template <typename... A, typename... B>
TypeList<A..., B...> operator+(TypeList<A...>, TypeList<B...>);

template <typename Description, int... kVariants>
auto VariantsOf(std::integer_sequence<int, kVariants...>)
    -> TypeList<RuleVariant<Description, kVariants>...>;

template <typename... Variants, std::size_t... kIndices>
auto WithTypes(TypeList<Variants...>, std::index_sequence<kIndices...>)
    -> testing::Types<
        RuleCase<std::tuple_element_t<kIndices % 4, VariableTypes>,
                 typename Variants::Description, Variants::kVariant>...>;
template <typename... Variants>
auto WithTypes(TypeList<Variants...> variants)
    -> decltype(WithTypes(variants, std::index_sequence_for<Variants...>()));

// All variants of these rules, each with one type of variables, in turns: rules
// and types don't meet in the same code.
template <typename... Descriptions>
auto TestCases(TypeList<Descriptions...>) -> decltype(WithTypes(
    (... + VariantsOf<Descriptions>(
               std::make_integer_sequence<int, kVariants<Descriptions>>()))));

using TestedRules = decltype(TestCases(AllDescriptions()));

// For loops that know no rule: none to three slots, one row-wise, one of
// tables. Each has two types.
using DifferentRules = decltype(TestCases(
    TypeList<Asgd, Adagrad, Sgd, Adam, Asgd, Adagrad, Sgd, Adam>()));

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_
