// Rules and variable types for the tests of engines.
#ifndef TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_
#define TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_

#include <tuple>
#include <utility>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/rule_cases.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/all_rules.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/type_list.h"

namespace tf_opt {

using VariableTypes = std::tuple<Half, BFloat16, float, double>;

template <typename Description, int... kVariants>
auto MakeTestCases(std::integer_sequence<int, kVariants...>)
    -> TypeList<RuleCase<std::tuple_element_t<kVariants % 4, VariableTypes>,
                         Description, kVariants>...>;

// The variants of a rule, with the variable types in turns.
template <typename Description>
using TestCasesOf = decltype(MakeTestCases<Description>(
    std::make_integer_sequence<int, kVariants<Description>>()));

template <typename... Lists>
struct Joined;
template <typename... Types>
struct Joined<TypeList<Types...>> {
  using type = testing::Types<Types...>;
};
template <typename... A, typename... B, typename... Lists>
struct Joined<TypeList<A...>, TypeList<B...>, Lists...>
    : Joined<TypeList<A..., B...>, Lists...> {};

template <typename Descriptions>
struct TestCases;
template <typename... Descriptions>
struct TestCases<TypeList<Descriptions...>> {
  // Every rule once, and every type: they don't meet in the same code.
  using type = typename Joined<TestCasesOf<Descriptions>...>::type;
};

using TestedRules = TestCases<AllDescriptions>::type;

// For loops that know no rule: none to three slots, one row-wise, one of
// tables.
using DifferentRules = TestCases<TypeList<Sgd, Adam, Adagrad, Asgd>>::type;

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_
