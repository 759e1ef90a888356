// A launch of a resource-apply op as values of a program that XLA compiles: the
// rule and its frame are written into it, for all of a variable, or for some
// rows, at a time.
#ifndef TF_OPT_CC_XLA_LOWERED_LAUNCH_H_
#define TF_OPT_CC_XLA_LOWERED_LAUNCH_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/framed_element.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/step_frame.h"
#include "tf_opt/cc/xla/apply_operands.h"
#include "tf_opt/cc/xla/hlo.h"
#include "tf_opt/cc/xla/hlo_element.h"
#include "tf_opt/cc/xla/lowered_part.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

// Of variables of type T, an Hlo.
template <typename T>
class LoweredLaunch : public ApplyLaunch<LoweredLaunch<T>, T> {
 public:
  using V = ComputeType<T>;

  // Takes parts of the values of `operands` and writes the new ones there. Of a
  // table the row with this number takes part.
  LoweredLaunch(ApplyOperands* operands, const std::vector<Operand>& slots,
                const std::vector<LoweredPart>& parts,
                const HloNumbers::Integer& row, xla::XlaBuilder* builder)
      : shapes_(operands->shapes()),
        parts_(parts),
        row_(row),
        builder_(builder) {
    this->SetOperands(slots);
    for (const Operand& operand : this->operands()) {
      if (operand.is_row_of_table()) this->SetTable(arrays_.size(), nullptr);
      arrays_.push_back(nullptr);
      for (ApplyOperands::Arrays& each : *operands->arrays()) {
        if (each.operand->name == std::string_view(operand.name)) {
          arrays_.back() = &each;
        }
      }
    }
  }

  using ApplyLaunch<LoweredLaunch, T>::CheckSlotsHaveOneType;

  // Updates all variables by `rules`, where `writes`; or accumulates, where
  // `update` is false.
  template <typename Rule>
  void Apply(const std::vector<FramedRule<Rule>>& rules, bool uses_random_bits,
             const HloBoolean& writes, const HloBoolean& update) {
    using Element = FramedElement<HloState<V>, T, Rule>;
    values_.resize(this->size());
    for (int i = 0; i < this->size(); ++i) Load(i);
    auto tensors = this->template Tensors<Rule::kSlots>();
    for (int i = 0; i < this->size(); ++i) {
      auto& tensor = tensors[i];
      if (uses_random_bits) tensor.first = parts_[i].ElementNumbers();
      const Values before = values_[i];
      const V gradient = HloConvert::Widen(before.gradient);
      if (!IsConstantly(update, false)) {
        Element::UpdateAt(rules[i], tensor, gradient, 0);
      }
      if (!IsConstantly(update, true)) {
        // Copies: `tensor` points to what is in values_[i].
        const Values updated = values_[i];
        values_[i] = before;
        Element::AccumulateAt(rules[i], tensor, gradient, 0);
        values_[i] = Choose(update, updated, values_[i]);
      }
      if (!IsConstantly(writes, true)) {
        values_[i] = Choose(writes, values_[i], before);
      }
      Store(i);
    }
  }

  // What ApplyLaunch asks.
  int count(int k) const { return IsThere(k) ? shapes_.size() : 0; }
  tensorflow::DataType type(int k, int i) const { return arrays_[k]->types[i]; }
  void* data(int k, int i) const {
    Values& values = values_[i];
    switch (k) {
      case kVariable:
        return &values.variable;
      case kGradient:
        return &values.gradient;
      case kAccumulator:
        return &values.accumulator;
      case kMasterWeight:
        return &values.master_weight;
      default:
        return &values.state[k];
    }
  }
  int64_t elements(int, int i) const { return shapes_[i].num_elements(); }
  int64_t first_dimension(int k, int i) const {
    return builder_->GetShape(arrays_[k]->values[i])->dimensions(0);
  }

 private:
  // A variable's operands, in the types that rule and frame expect.
  struct Values {
    T variable;
    T gradient;
    V accumulator;
    V master_weight;
    std::vector<xla::XlaOp> state;  // By the operand's number.
  };

  static Values Choose(const HloBoolean& condition, const Values& a,
                       const Values& b) {
    Values chosen = b;
    chosen.variable = Select(condition, a.variable, b.variable);
    chosen.accumulator = Select(condition, a.accumulator, b.accumulator);
    chosen.master_weight = Select(condition, a.master_weight, b.master_weight);
    for (std::size_t k = 0; k < a.state.size(); ++k) {
      if (!a.state[k].valid()) continue;
      chosen.state[k] = xla::Select(condition.In(a.state[k].builder()),
                                    a.state[k], b.state[k]);
    }
    return chosen;
  }

  bool IsThere(int k) const { return arrays_[k] != nullptr; }

  void Load(int i) {
    Values& values = values_[i];
    values.state.resize(this->operands().size());
    for (int k = 0; k < static_cast<int>(this->operands().size()); ++k) {
      if (!IsThere(k)) continue;
      const xla::XlaOp value = Take(k, i);
      if (k == kVariable) {
        values.variable = T(value);
      } else if (k == kGradient) {
        values.gradient = T(value);
      } else if (k == kAccumulator) {
        values.accumulator = V(value);
      } else if (k == kMasterWeight) {
        values.master_weight = V(value);
      } else {
        values.state[k] = value;
      }
    }
  }

  void Store(int i) {
    const Values& values = values_[i];
    Put(kVariable, i, values.variable.In(builder_));
    if (IsThere(kAccumulator)) {
      Put(kAccumulator, i, values.accumulator.In(builder_));
    }
    if (IsThere(kMasterWeight)) {
      Put(kMasterWeight, i, values.master_weight.In(builder_));
    }
    for (int k = 0; k < static_cast<int>(values.state.size()); ++k) {
      if (values.state[k].valid()) Put(k, i, values.state[k]);
    }
  }

  xla::XlaOp Take(int k, int i) const {
    const xla::XlaOp from = arrays_[k]->values[i];
    // Gradients are of what takes part.
    if (k == kGradient) return from;
    return this->operands()[k].is_row_of_table() ? parts_[i].Take(from, row_)
                                                 : parts_[i].Take(from);
  }
  void Put(int k, int i, xla::XlaOp value) {
    xla::XlaOp& to = arrays_[k]->values[i];
    to = this->operands()[k].is_row_of_table() ? parts_[i].Put(to, row_, value)
                                               : parts_[i].Put(to, value);
  }

  const std::vector<tensorflow::TensorShape>& shapes_;
  const std::vector<LoweredPart>& parts_;       // One for each variable.
  std::vector<ApplyOperands::Arrays*> arrays_;  // Null: there are none.
  const HloNumbers::Integer row_;
  xla::XlaBuilder* const builder_;
  mutable std::vector<Values> values_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_LOWERED_LAUNCH_H_
