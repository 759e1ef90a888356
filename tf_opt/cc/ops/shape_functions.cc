#include "tf_opt/cc/ops/shape_functions.h"

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/ops/operand_checks.h"

namespace tf_opt {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::PartialTensorShape;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

absl::Status ToPartialShape(InferenceContext* c, ShapeHandle handle,
                            PartialTensorShape* shape) {
  tensorflow::TensorShapeProto proto;
  c->ShapeHandleToProto(handle, &proto);
  return PartialTensorShape::BuildPartialTensorShape(proto, shape);
}

// Finds the shapes of an input, which may be a list.
absl::Status FindShapes(InferenceContext* c, const std::string& name,
                        std::vector<PartialTensorShape>* shapes) {
  std::vector<ShapeHandle> handles;
  TF_RETURN_IF_ERROR(c->input(name, &handles));
  shapes->resize(handles.size());
  for (size_t i = 0; i < handles.size(); ++i) {
    TF_RETURN_IF_ERROR(ToPartialShape(c, handles[i], &(*shapes)[i]));
  }
  return absl::OkStatus();
}

// Finds the shape of the variable whose handle is this input, and its type;
// DT_INVALID if the graph doesn't know them.
absl::Status FindVariable(InferenceContext* c, int input,
                          PartialTensorShape* shape, DataType* type) {
  *type = tensorflow::DT_INVALID;
  const auto* const data = c->input_handle_shapes_and_types(input);
  if (data == nullptr || data->empty()) return absl::OkStatus();
  *type = data->front().dtype;
  return ToPartialShape(c, data->front().shape, shape);
}

// Checks the list of handles that begins at input `begin` against the shapes of
// the list `whose`, and sets `end` to its end.
absl::Status CheckHandles(InferenceContext* c, const Operand& list, int begin,
                          const std::vector<PartialTensorShape>& shapes,
                          const std::string& whose, int* end) {
  DataType variable, type;
  TF_RETURN_IF_ERROR(c->GetAttr("T", &variable));
  std::vector<ShapeHandle> handles;
  TF_RETURN_IF_ERROR(c->input(list.name, &handles));
  const int found = handles.size(), count = shapes.size();
  *end = begin + found;
  // A single handle may be a group's.
  if (found == 1 && count > 1) return absl::OkStatus();
  TF_RETURN_IF_ERROR(
      CheckLength(list.name, "variable", list.optional, count, found));
  for (int i = 0; i < found; ++i) {
    PartialTensorShape shape;
    TF_RETURN_IF_ERROR(FindVariable(c, begin + i, &shape, &type));
    if (type == tensorflow::DT_INVALID) continue;
    TF_RETURN_IF_ERROR(
        CheckOperand(list, i, variable, type, shapes[i], whose, shape));
  }
  return absl::OkStatus();
}

// Checks slices against the shapes of their tables.
absl::Status CheckSlices(InferenceContext* c,
                         const std::vector<PartialTensorShape>& tables) {
  std::vector<PartialTensorShape> gradients, indices, more_rows;
  TF_RETURN_IF_ERROR(FindShapes(c, "gradients", &gradients));
  TF_RETURN_IF_ERROR(FindShapes(c, "indices", &indices));
  TF_RETURN_IF_ERROR(FindShapes(c, "accumulated_rows", &more_rows));
  TF_RETURN_IF_ERROR(CheckLength("accumulated_rows", "vector",
                                 /*optional=*/true, gradients.size(),
                                 more_rows.size()));
  for (size_t i = 0; i < gradients.size(); ++i) {
    TF_RETURN_IF_ERROR(
        CheckSliceShapes(i, "", tables[i], gradients[i], indices[i]));
  }
  for (size_t i = 0; i < more_rows.size(); ++i) {
    TF_RETURN_IF_ERROR(CheckIsVector("accumulated_rows", i, "", more_rows[i]));
  }
  return absl::OkStatus();
}

absl::Status CheckScalars(InferenceContext* c,
                          const std::vector<std::string>& scalars) {
  std::vector<PartialTensorShape> shapes;
  for (const std::string& scalar : scalars) {
    TF_RETURN_IF_ERROR(FindShapes(c, scalar, &shapes));
    TF_RETURN_IF_ERROR(CheckScalarShape(scalar, shapes[0]));
  }
  return absl::OkStatus();
}

absl::Status CheckPerVariable(InferenceContext* c, const std::string& name,
                              int count) {
  std::vector<PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(FindShapes(c, name, &shapes));
  return CheckPerVariableShape(name, count, shapes[0]);
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
  // Arrays must have the shapes of dense gradients or of tables.
  std::vector<PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(FindShapes(c, "gradients", &shapes));
  const int count = shapes.size();
  if (sparse) {
    std::vector<ShapeHandle> variables;
    TF_RETURN_IF_ERROR(c->input("variables", &variables));
    shapes.assign(count, PartialTensorShape());
    for (int i = 0; static_cast<int>(variables.size()) == count && i < count;
         ++i) {
      DataType unused;
      TF_RETURN_IF_ERROR(FindVariable(c, i, &shapes[i], &unused));
    }
    TF_RETURN_IF_ERROR(CheckSlices(c, shapes));
  }
  const char* const whose = sparse ? "variables" : "gradients";
  int begin = 0;
  for (const Operand& list : InputOrder(slots)) {
    if (list.role == Role::kRead) {
      begin += count;
      continue;
    }
    TF_RETURN_IF_ERROR(CheckHandles(c, list, begin, shapes, whose, &begin));
  }
  TF_RETURN_IF_ERROR(CheckScalars(c, scalars));
  for (const char* name : kPerVariableInputs) {
    TF_RETURN_IF_ERROR(CheckPerVariable(c, name, count));
  }
  return absl::OkStatus();
}

absl::Status MeasureShapes(InferenceContext* c) {
  std::vector<PartialTensorShape> gradients;
  TF_RETURN_IF_ERROR(FindShapes(c, "gradients", &gradients));
  const int count = gradients.size();
  int unused;
  TF_RETURN_IF_ERROR(CheckHandles(c, kFrameOperands[kAccumulator], count,
                                  gradients, "gradients", &unused));
  TF_RETURN_IF_ERROR(CheckScalars(c, {"gradient_scale", "enabled"}));
  c->set_output(0, c->Vector(count));
  c->set_output(1, c->Vector(count));
  return absl::OkStatus();
}

absl::Status MergeShapes(InferenceContext* c) {
  // The tables differ from their gradients in the number of rows, which isn't
  // checked here.
  std::vector<PartialTensorShape> gradients;
  TF_RETURN_IF_ERROR(FindShapes(c, "gradients", &gradients));
  TF_RETURN_IF_ERROR(CheckSlices(c, gradients));
  const int count = gradients.size();
  TF_RETURN_IF_ERROR(CheckPerVariable(c, "table_rows", count));
  for (int i = 0; i < count; ++i) {
    c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
    ShapeHandle sums = c->input(i);
    if (c->RankKnown(sums)) {
      TF_RETURN_IF_ERROR(c->ReplaceDim(sums, 0, c->UnknownDim(), &sums));
    }
    c->set_output(count + i, sums);
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
