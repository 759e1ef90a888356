#include "tf_opt/cc/rules/scalar_math.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

template <typename V>
class SignTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SignTest, Types);

TYPED_TEST(SignTest, OfNumbers) {
  using V = TypeParam;
  for (const V x : {V(1e-40), V(0.5), V(3), V(INFINITY)}) {
    EXPECT_EQ(Sign(x), 1);
    EXPECT_EQ(Sign(-x), -1);
  }
}

TYPED_TEST(SignTest, OfZerosAndNan) {
  using V = TypeParam;
  EXPECT_EQ(Sign(V(0)), 0);
  EXPECT_FALSE(std::signbit(Sign(V(0))));
  EXPECT_EQ(Sign(-V(0)), 0);
  EXPECT_FALSE(std::signbit(Sign(-V(0))));
  EXPECT_TRUE(std::isnan(Sign(V(NAN))));
}

}  // namespace
}  // namespace tf_opt
