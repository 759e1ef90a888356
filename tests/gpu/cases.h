// The optimizers of the proof: what the engine calls each, and the numbers that
// its steps go by.
#ifndef TF_OPT_TESTS_GPU_CASES_H_
#define TF_OPT_TESTS_GPU_CASES_H_

#include <cmath>

#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/asgd.h"
#include "tf_opt/cc/rules/averaged_sgd.h"
#include "tf_opt/cc/rules/nadam.h"

namespace tf_opt {

struct Modes {
  bool amsgrad = false;
  bool epsilon_hat = false;
  bool l2 = false;
  bool maximize = false;
};

// What most cases have in common.
template <typename Description>
struct Case : Description {
  static constexpr int kRows = 0;  // Of the table, if one of the slots is one.

  template <typename V, typename Use>
  static void Choose(const Modes& modes, const Use& use) {
    Description::template ChooseRule<V>(modes.l2, use);
  }
};

struct AdamCase : Case<Adam> {
  static constexpr char kName[] = "adam";

  static Hyperparameters At(int t, const Modes& modes) {
    Hyperparameters h;
    h.step = t;
    h.beta_2 = 0.75;
    h.maximize = modes.maximize;
    h.epsilon_hat = modes.epsilon_hat;
    return h;
  }

  template <typename V, typename Use>
  static void Choose(const Modes& modes, const Use& use) {
    ChooseRule<V>(modes.amsgrad, modes.l2, use);
  }
};

struct NAdamCase : Case<NAdam> {
  static constexpr char kName[] = "nadam";

  static Hyperparameters At(int t, const Modes& modes) {
    Hyperparameters h;
    h.step = t;
    h.momentum_product = std::pow(0.45, t - 1);
    h.maximize = modes.maximize;
    return h;
  }
};

struct AsgdCase : Case<Asgd> {
  static constexpr char kName[] = "asgd";
  static constexpr int kRows = 3;

  static Hyperparameters At(int t, const Modes& modes) {
    Hyperparameters h;
    h.learning_rate = 0.0625;
    h.seen_batches = t < kRows ? t : kRows;
    h.maximize = modes.maximize;
    return h;
  }
};

struct AveragedSgdCase : Case<AveragedSgd> {
  static constexpr char kName[] = "averaged_sgd";

  static Hyperparameters At(int t, const Modes& modes) {
    Hyperparameters h;
    h.step = t;
    h.eta = 0.0625 / t;
    h.t0 = 5;
    h.maximize = modes.maximize;
    return h;
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_CASES_H_
