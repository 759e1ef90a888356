#include "tf_opt/cc/rules/coasting.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/rules/all_rules.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace {

// Hyperparameters that stay the same.
struct Constants {
  double beta_1;
  double beta_2;
  double momentum = 0;
  double epsilon = 1e-12;
};

class Random {
 public:
  double Between(double low, double high) {
    return std::uniform_real_distribution<>(low, high)(engine_);
  }

 private:
  std::mt19937 engine_{3};
};

// Sets the modes to the bits of `modes` and all numbers that may change from
// step to step to new ones.
template <typename Description>
typename Description::Hyperparameters NumbersOf(int64_t t,
                                                const Constants& constants,
                                                int modes, Random* random) {
  typename Description::Hyperparameters h;
  for (const auto& input : Description::kScalars) {
    const std::string name = input.name;
    void* const number = input.In(&h);
    if (input.type == ScalarType::kInt64) {
      *static_cast<int64_t*>(number) = t;
    } else {
      *static_cast<double*>(number) = name == "beta_1"     ? constants.beta_1
                                      : name == "beta_2"   ? constants.beta_2
                                      : name == "rho"      ? constants.beta_2
                                      : name == "momentum" ? constants.momentum
                                      : name == "epsilon"
                                          ? constants.epsilon
                                          : random->Between(0.01, 0.1);
    }
  }
  for (const auto& mode : Description::kModes) {
    *static_cast<bool*>(mode.In(&h)) = modes & 1;
    modes >>= 1;
  }
  return h;
}

// Lets elements take `steps` steps with a gradient of zero, and coast.
template <typename Rule>
void CheckCoasting(const Constants& constants, int modes, int steps) {
  // A variable's element and its slots.
  using Element = std::array<double, 1 + Rule::kSlots>;
  const std::string first_slot = Rule::Description::kSlotOperands[0].name;
  Random random;
  std::vector<Element> elements(20);
  for (Element& element : elements) {
    const double p = random.Between(-1, 1), first = random.Between(-1, 1);
    // Second moments or norms, which may have epsilon in them, and a maximum,
    // which isn't smaller.
    const double norm = random.Between(0.01, 1) + 2 * constants.epsilon;
    // Others begin with squares.
    const double values[] = {p, first_slot == "m" ? first : std::abs(first),
                             norm, norm * random.Between(1, 2)};
    std::copy_n(values, element.size(), element.begin());
  }
  std::vector<Element> expected = elements;
  std::vector<double> paths(elements.size());
  MissedSteps missed = MissedSteps::None();
  for (int k = 0; k < steps; ++k) {
    const typename Rule::Scalars scalars(NumbersOf<typename Rule::Description>(
        5 + k, constants, modes, &random));
    VariableInputs own;
    own.weight_decay = random.Between(0, 0.1);
    own.learning_rate_factor = random.Between(0.5, 2);
    missed.Add(MissedStepOf<Rule>(scalars, {}, own));
    const double keep = KeptBy<Rule>(scalars, {}, own);
    const Rule rule(scalars, own);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const double before = expected[i][0];
      std::apply(
          [&](double& p, auto&... slots) {
            p = keep * p;
            rule(p, 0.0, slots...);
          },
          expected[i]);
      paths[i] += std::abs(expected[i][0] - before);
    }
  }
  EXPECT_EQ(missed.count, steps);
  const Coasting<double> coasting(missed);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const double direction = std::apply(
        [&](double, auto... slots) {
          return Rule::Direction(coasting.epsilon, slots...);
        },
        elements[i]);
    const double p =
        coasting.keep * elements[i][0] - coasting.moved * direction;
    ASSERT_NEAR(p, expected[i][0], 1e-9 * paths[i] + 1e-15);
    for (int k = 0; k < Rule::kSlots; ++k) {
      const double slot = elements[i][1 + k] * coasting.decays[k];
      ASSERT_NEAR(slot, expected[i][1 + k],
                  1e-12 * std::abs(expected[i][1 + k]));
    }
  }
}

template <typename Description>
void CheckRules(const Constants& constants, const std::vector<int>& steps) {
  if constexpr (Description::kCoasts) {
    const int modes = 1 << std::size(Description::kModes);
    for (int variant = 0; variant < kVariants<Description>; ++variant) {
      for (int mode = 0; mode < modes; ++mode) {
        for (const int count : steps) {
          SCOPED_TRACE(testing::Message()
                       << Description::kOp << ", variant " << variant
                       << ", modes " << mode << ", " << count
                       << " steps, beta_2 " << constants.beta_2);
          WithRule<Description, double>(variant, [&](auto rule) {
            CheckCoasting<typename decltype(rule)::type>(constants, mode,
                                                         count);
          });
        }
      }
    }
  }
}

TEST(Coasting, MakesUpForTheMissedSteps) {
  ForEachRule([](auto rule) {
    using Description = typename decltype(rule)::type;
    CheckRules<Description>({0.8, 0.99, 0.9}, {0, 1, 7, 300});
    CheckRules<Description>({0.8, 0.99, 1}, {7});
    CheckRules<Description>({0, 0.99, 0}, {1, 7, 300});
  });
}

TEST(Coasting, MakesUpForThemIfTheDenominatorSoonVanishes) {
  CheckRules<Adam>({0.2, 0.25}, {7, 1200});
  CheckRules<NAdam>({0.2, 0.25}, {7, 1200});
}

TEST(Coasting, StopsWithTheSlotThatMovesTheVariable) {
  CheckRules<Lion>({0.8, 0}, {1, 7});
  CheckRules<Rmsprop>({0, 0, 0.9}, {1, 7});
}

TEST(Coasting, WeighsEpsilon) {
  ForEachRule([](auto rule) {
    using Description = typename decltype(rule)::type;
    // Exactly after one step, and to the first order after more.
    CheckRules<Description>({0.8, 0.99, 0.9, 0.5}, {1});
    CheckRules<Description>({0.8, 0.99, 0.9, 1e-6}, {7});
  });
}

TEST(Coasting, TakesARowWithAWrongNumberForUpToDate) {
  const MissedSteps entries[] = {MissedSteps::None(), MissedSteps::None()};
  EXPECT_EQ(MissedBy(1, entries, 2), entries + 1);
  for (const float since : {2.0f, 1e9f, INFINITY, -1.0f, -INFINITY, NAN}) {
    EXPECT_EQ(MissedBy(since, entries, 2), nullptr) << since;
  }
}

}  // namespace
}  // namespace tf_opt
