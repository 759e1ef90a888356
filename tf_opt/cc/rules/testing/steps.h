// Helpers for tests of rules.
#ifndef TF_OPT_CC_RULES_TESTING_STEPS_H_
#define TF_OPT_CC_RULES_TESTING_STEPS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <utility>

#include "gtest/gtest.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {

// Of the variable in `ExpectStepsOf`.
inline constexpr VariableInputs kOwn = [] {
  VariableInputs own;
  own.weight_decay = 0.25;
  own.learning_rate_factor = 0.5;
  return own;
}();

// Calls use(values...).
template <typename Values, typename Use, std::size_t... kIndices>
auto WithValues(Values* values, const Use& use,
                std::index_sequence<kIndices...>) {
  return use((*values)[kIndices]...);
}

// Takes steps of a rule in double, and compares each with a formula in long
// double that starts from the same state. `formula(g, &h, p, slots...)` updates
// the values, and in `h` what the next step takes from this one.
template <typename Rule, typename Hyperparameters, typename Formula>
void ExpectStepsOf(const Formula& formula, Hyperparameters h) {
  constexpr int kValues = 1 + Rule::kSlots;
  constexpr auto kIndices = std::make_index_sequence<kValues>();
  std::mt19937 random(1);
  std::normal_distribution<> noise;
  std::array<double, kValues> values = {1.0};
  for (h.step = 1; h.step <= 50; ++h.step) {
    const double g = noise(random);
    std::array<long double, kValues> expected;
    std::copy(values.begin(), values.end(), expected.begin());
    const Rule rule(typename Rule::Step(h), kOwn);
    WithValues(
        &values, [&](double& p, auto&... slots) { rule(p, g, slots...); },
        kIndices);
    WithValues(
        &expected, [&](auto&... exact) { formula(g, &h, exact...); }, kIndices);
    for (int k = 0; k < kValues; ++k) {
      // Some units in the last place of numbers of this size.
      ASSERT_NEAR(values[k], static_cast<double>(expected[k]), 4e-15)
          << "value " << k << " after step " << h.step;
    }
  }
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_TESTING_STEPS_H_
