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

template <int kFirst, typename Description, int... kVariants>
auto MakeTestCases(std::integer_sequence<int, kVariants...>) -> TypeList<
    RuleCase<std::tuple_element_t<(kFirst + kVariants) % 4, VariableTypes>,
             Description, kVariants>...>;

// The variants of a rule, with the variable types in turns.
template <int kFirst, typename Description>
using TestCasesOf = decltype(MakeTestCases<kFirst, Description>(
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
  // Every rule once, and every type: for what doesn't depend on their
  // combination.
  using Some = typename Joined<TestCasesOf<0, Descriptions>...>::type;
  using All = typename Joined<
      TestCasesOf<0, Descriptions>..., TestCasesOf<1, Descriptions>...,
      TestCasesOf<2, Descriptions>..., TestCasesOf<3, Descriptions>...>::type;
};

using AllRules = TestCases<AllDescriptions>::All;
using SomeRules = TestCases<AllDescriptions>::Some;

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_ALL_RULES_H_
