#include "tf_opt/cc/ops/shape_functions.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/ops/operand_types.h"

namespace tf_opt {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::DataTypeString;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeAndType;
using ::tensorflow::shape_inference::ShapeHandle;

// Checks the `count` handles from input `begin` on, which the user knows by
// their list's name, against their types and, where known, `shapes`, those
// of the list `whose`; then leaves the more precise of both in `shapes`. A
// handle that carries nothing passes: the kernel checks it again.
absl::Status MergeHandles(InferenceContext* c, const Operand& list, int begin,
                          int count, const TypeList& types,
                          const std::string& whose,
                          std::vector<ShapeHandle>* shapes) {
  const char* const name = list.name;
  for (int i = 0; i < count; ++i) {
    const std::vector<ShapeAndType>* data =
        c->input_handle_shapes_and_types(begin + i);
    if (data == nullptr || data->empty()) continue;
    const ShapeAndType& variable = data->front();
    if (!types.Has(variable.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`", name, "[", i, "]` must be a variable of ", types.ToString(),
          ", got ", DataTypeString(variable.dtype)));
    }
    ShapeHandle shape = variable.shape;
    ShapeHandle merged;
    if ((list.is_row_of_table() &&
         !c->Subshape(variable.shape, 1, &shape).ok()) ||
        !c->Merge((*shapes)[i], shape, &merged).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`", name, "[", i, "]` must ",
          list.is_row_of_table() ? "hold rows of" : "have", " the shape of `",
          whose, "[", i, "]`, ", c->DebugString((*shapes)[i]), ", got ",
          c->DebugString(variable.shape)));
    }
    (*shapes)[i] = merged;
  }
  return absl::OkStatus();
}

// Checks slices against the shapes of their tables, and leaves the more precise
// ones in `tables`.
absl::Status CheckSlices(InferenceContext* c,
                         const std::vector<ShapeHandle>& gradients,
                         std::vector<ShapeHandle>* tables) {
  std::vector<ShapeHandle> indices, more_rows;
  TF_RETURN_IF_ERROR(c->input("indices", &indices));
  TF_RETURN_IF_ERROR(c->input("accumulated_rows", &more_rows));
  const int n = gradients.size();
  if (!more_rows.empty() && static_cast<int>(more_rows.size()) != n) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`accumulated_rows` must be empty or have one vector for each of the ",
        n, " `gradients`, got ", more_rows.size()));
  }
  ShapeHandle unused;
  for (int i = 0; i < n; ++i) {
    if (!c->WithRank(indices[i], 1, &unused).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("`indices[", i, "]` must be a vector, got shape ",
                       c->DebugString(indices[i])));
    }
    if (!more_rows.empty() && !c->WithRank(more_rows[i], 1, &unused).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`accumulated_rows[", i, "]` must be a vector, got shape ",
          c->DebugString(more_rows[i])));
    }
    ShapeHandle expected = indices[i];
    if (!c->WithRankAtLeast((*tables)[i], 1, &unused).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`variables[", i, "]` must have rows to have a sparse gradient, got ",
          "shape ", c->DebugString((*tables)[i])));
    }
    if (c->RankKnown((*tables)[i])) {
      TF_RETURN_IF_ERROR(c->ReplaceDim((*tables)[i], 0,
                                       c->NumElements(indices[i]), &expected));
    } else {
      expected = c->UnknownShape();
    }
    ShapeHandle values;
    if (!c->Merge(expected, gradients[i], &values).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`gradients[", i, "]` must have one row of `variables[", i,
          "]` for each of `indices[", i, "]`, shape ", c->DebugString(expected),
          ", got ", c->DebugString(gradients[i])));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckScalars(InferenceContext* c,
                          const std::vector<std::string>& scalars) {
  std::vector<ShapeHandle> inputs;
  for (const std::string& scalar : scalars) {
    TF_RETURN_IF_ERROR(c->input(scalar, &inputs));
    ShapeHandle unused;
    if (!c->WithRank(inputs[0], 0, &unused).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", scalar, "` must be a scalar, got shape ",
                       c->DebugString(inputs[0])));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Operand> InputOrder(const std::vector<Operand>& slots) {
  std::vector<Operand> order = {kFrameOperands[kVariable]};
  order.insert(order.end(), slots.begin(), slots.end());
  for (const FrameOperand k :
       {kGradient, kAccumulator, kAverage, kMasterWeight}) {
    order.push_back(kFrameOperands[k]);
  }
  return order;
}

absl::Status CheckApplyShapes(InferenceContext* c,
                              const std::vector<Operand>& slots,
                              const std::vector<std::string>& scalars,
                              bool sparse) {
  DataType dtype;
  TF_RETURN_IF_ERROR(c->GetAttr("T", &dtype));

  std::vector<ShapeHandle> gradients;
  TF_RETURN_IF_ERROR(c->input("gradients", &gradients));
  const int n = gradients.size();
  // One for each: a shared handle would say that all have the same shape, and
  // graph optimization would believe it.
  std::vector<ShapeHandle> shapes(n);
  for (ShapeHandle& shape : shapes) shape = c->UnknownShape();

  const std::string kMasterWeights = kFrameOperands[kMasterWeight].name;
  std::vector<ShapeHandle> inputs;
  int begin = 0;
  for (const Operand& list : InputOrder(slots)) {
    TF_RETURN_IF_ERROR(c->input(list.name, &inputs));
    const int count = inputs.size();
    if (list.role == Role::kRead) {
      begin += count;
      continue;
    }
    // One handle for several variables is a group's; it carries no shapes.
    if (count > 1 && count != n) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`", list.name, "` must have one variable for each of the ", n,
          " `gradients` (or be one group), got ", count));
    }
    if (count > 0 && list.name == kMasterWeights &&
        dtype != tensorflow::DT_HALF && dtype != tensorflow::DT_BFLOAT16) {
      return NoMasterWeights(dtype);
    }
    if (count == n) {
      TF_RETURN_IF_ERROR(MergeHandles(
          c, list, begin, count, TypesOf(list, dtype), "variables", &shapes));
    }
    begin += count;
  }

  if (sparse) {
    TF_RETURN_IF_ERROR(CheckSlices(c, gradients, &shapes));
  }
  for (int i = 0; i < n && !sparse; ++i) {
    ShapeHandle merged;
    if (!c->Merge(shapes[i], gradients[i], &merged).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`gradients[", i, "]` must have the shape of `variables[", i, "]`, ",
          c->DebugString(shapes[i]), ", got ", c->DebugString(gradients[i])));
    }
  }

  TF_RETURN_IF_ERROR(CheckScalars(c, scalars));

  for (const char* vector : kPerVariableInputs) {
    TF_RETURN_IF_ERROR(c->input(vector, &inputs));
    ShapeHandle unused;
    if (c->RankKnown(inputs[0]) && c->Rank(inputs[0]) > 0 &&
        !c->Merge(inputs[0], c->Vector(n), &unused).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`", vector, "` must be a scalar, or a vector with one element for ",
          "each of the ", n, " `variables`, got shape ",
          c->DebugString(inputs[0])));
    }
  }
  return absl::OkStatus();
}

namespace {

// `shapes` are those of what the gradients are of, which the user knows as
// `whose`; the accumulators begin at input `begin`.
absl::Status CheckMeasure(InferenceContext* c, int begin,
                          const std::string& whose,
                          std::vector<ShapeHandle> shapes) {
  DataType dtype;
  TF_RETURN_IF_ERROR(c->GetAttr("T", &dtype));
  std::vector<ShapeHandle> accumulators;
  TF_RETURN_IF_ERROR(c->input("accumulators", &accumulators));
  const int n = shapes.size();
  const int count = accumulators.size();
  // One handle for several gradients is a group's; it carries no shapes.
  if (count > 1 && count != n) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`accumulators` must be empty, have one variable for each of the ", n,
        " `gradients` or be one group, got ", count));
  }
  if (count == n) {
    TF_RETURN_IF_ERROR(MergeHandles(c, "accumulators", begin, count,
                                    ArithmeticType(dtype), whose, &shapes));
  }
  TF_RETURN_IF_ERROR(CheckScalars(c, {"gradient_scale", "enabled"}));
  c->set_output(0, c->Vector(n));
  c->set_output(1, c->Vector(n));
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureShapes(InferenceContext* c) {
  std::vector<ShapeHandle> gradients;
  TF_RETURN_IF_ERROR(c->input("gradients", &gradients));
  const int n = gradients.size();
  return CheckMeasure(c, n, "gradients", std::move(gradients));
}

absl::Status MeasureSparseShapes(InferenceContext* c) {
  std::vector<ShapeHandle> gradients, more_rows;
  TF_RETURN_IF_ERROR(c->input("gradients", &gradients));
  TF_RETURN_IF_ERROR(c->input("accumulated_rows", &more_rows));
  const int n = gradients.size();
  std::vector<ShapeHandle> rows_shapes;
  TF_RETURN_IF_ERROR(c->input("rows", &rows_shapes));
  ShapeHandle unused;
  if (!c->Merge(rows_shapes[0], c->Vector(n), &unused).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`rows` must be a vector with one element for each of the ", n,
        " `gradients`, got shape ", c->DebugString(rows_shapes[0])));
  }
  // The last input. Null where the graph doesn't know its value.
  const tensorflow::Tensor* const rows = c->input_tensor(c->num_inputs() - 1);
  std::vector<ShapeHandle> tables(n);
  for (int i = 0; i < n; ++i) {
    tables[i] = c->UnknownShape();
    int64_t count = InferenceContext::kUnknownDim;
    if (rows != nullptr) {
      count = rows->vec<int64_t>()(i);
      if (count < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("`rows` must not be negative, got ", count));
      }
    }
    if (!c->RankKnown(gradients[i]) || c->Rank(gradients[i]) == 0) continue;
    TF_RETURN_IF_ERROR(
        c->ReplaceDim(gradients[i], 0, c->MakeDim(count), &tables[i]));
  }
  TF_RETURN_IF_ERROR(CheckSlices(c, gradients, &tables));
  const int begin = 2 * n + more_rows.size();
  return CheckMeasure(c, begin, "variables", std::move(tables));
}

}  // namespace tf_opt
