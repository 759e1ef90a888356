// The optimizers of the proof: a name, and the numbers of each step.
#ifndef TF_OPT_TESTS_GPU_CASES_H_
#define TF_OPT_TESTS_GPU_CASES_H_

#include <cstddef>
#include <iterator>
#include <string>

#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"

namespace tf_opt {

struct Modes {
  int variant = 0;  // See rules/description.h.
  int own = 0;      // The attributes that only this op has, as bits.
};

template <typename Description_>
struct Case : Description_ {
  using Description = Description_;

  // The input with the number of a layer; null if no slot is stacked.
  static constexpr const char* LayerInput() {
    const char* name = nullptr;
    for (const Operand& slot : Description::kSlotOperands) {
      if (slot.is_stacked()) name = slot.layer_input;
    }
    return name;
  }
  // Layers of a stacked slot.
  static constexpr int kLayers = LayerInput() == nullptr ? 0 : 3;
  static constexpr int kOwnModes = 1 << std::size(Description::kModes);

  static typename Description::Hyperparameters At(int t, const Modes& modes) {
    auto h = HyperparametersAt<Description>(t);
    for (std::size_t k = 0; k < std::size(Description::kModes); ++k) {
      h.*Description::kModes[k].boolean = modes.own >> k & 1;
    }
    return h;
  }

  static std::string Name(const Modes& modes) {
    std::string name = Description::kOp;
    int bit = 0;
    for (const Operand& slot : Description::kSlotOperands) {
      bit += slot.may_be_by_row;
      if (!slot.optional) continue;
      if (modes.variant >> bit++ & 1) name += std::string(", ") + slot.name;
    }
    for (std::size_t k = 0; k < std::size(Description::kModes); ++k) {
      if (modes.own >> k & 1) {
        name += std::string(", ") + Description::kModes[k].name;
      }
    }
    return name;
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_CASES_H_
