// TensorFlow's types of an operand's elements.
#ifndef TF_OPT_CC_OPS_OPERAND_TYPES_H_
#define TF_OPT_CC_OPS_OPERAND_TYPES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/rules/operand.h"

namespace tf_opt {

// One type or a few.
class TypeList {
 public:
  TypeList(tensorflow::DataType type) { Add(type); }

  void Add(tensorflow::DataType type) { types_[count_++] = type; }

  bool Has(tensorflow::DataType type) const {
    for (int i = 0; i < count_; ++i) {
      if (types_[i] == type) return true;
    }
    return false;
  }

  // "float or bfloat16".
  std::string ToString() const {
    std::string text = tensorflow::DataTypeString(types_[0]);
    for (int i = 1; i < count_; ++i) {
      absl::StrAppend(&text, i + 1 < count_ ? ", " : " or ",
                      tensorflow::DataTypeString(types_[i]));
    }
    return text;
  }

 private:
  tensorflow::DataType types_[3] = {};
  int count_ = 0;
};

// Type of the arithmetic on variables of type `variable`.
inline tensorflow::DataType ArithmeticType(tensorflow::DataType variable) {
  return variable == tensorflow::DT_DOUBLE ? tensorflow::DT_DOUBLE
                                           : tensorflow::DT_FLOAT;
}

// Types that an operand may have if the variables are of type `variable`.
inline TypeList TypesOf(const Operand& operand, tensorflow::DataType variable) {
  if (operand.storage == Storage::kVariable) return variable;
  const tensorflow::DataType arithmetic = ArithmeticType(variable);
  TypeList types(arithmetic);
  if (operand.storage == Storage::kState) {
    if (arithmetic == tensorflow::DT_DOUBLE) types.Add(tensorflow::DT_FLOAT);
    types.Add(tensorflow::DT_BFLOAT16);
  }
  return types;
}

// The error for the i-th slot of the list `name` with another type than the
// i-th of the list `whose`.
inline absl::Status OtherSlotType(const std::string& name, int i,
                                  tensorflow::DataType found,
                                  const std::string& whose,
                                  tensorflow::DataType expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("`", name, "[", i, "]` must have the type of `", whose, "[",
                   i, "]`, ", tensorflow::DataTypeString(expected), ", got ",
                   tensorflow::DataTypeString(found)));
}

// The error for master weights of variables of type `variable`.
inline absl::Status NoMasterWeights(tensorflow::DataType variable) {
  return absl::InvalidArgumentError(absl::StrCat(
      "`master_weights` must be empty where variables aren't half or bfloat16; "
      "these are ",
      tensorflow::DataTypeString(variable)));
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_OPS_OPERAND_TYPES_H_
