#include "tf_opt/cc/kernels/variable_access.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/rules/coasting.h"

namespace tf_opt {

using ::tensorflow::DataType;
using ::tensorflow::DataTypeSet;
using ::tensorflow::DataTypeString;
using ::tensorflow::OpInputList;
using ::tensorflow::OpKernelContext;
using ::tensorflow::ResourceHandle;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;
using ::tensorflow::TypeIndex;
using ::tensorflow::Var;
using ::tensorflow::core::RefCountPtr;

namespace {

// Types that an operand may have if the variables are of type `variable`.
DataTypeSet TypesOf(const Operand& operand, DataType variable) {
  if (operand.storage == Storage::kVariable) return ToSet(variable);
  if (operand.storage == Storage::kSince) return ToSet(tensorflow::DT_FLOAT);
  if (operand.storage == Storage::kCoasting) {
    return ToSet(tensorflow::DT_DOUBLE);
  }
  const DataTypeSet arithmetic = ToSet(ArithmeticType(variable));
  if (operand.storage == Storage::kArithmetic) return arithmetic;
  return arithmetic | ToSet(tensorflow::DT_FLOAT) |
         ToSet(tensorflow::DT_BFLOAT16);
}

// Checks the shape of an operand by row, or of missed steps, of a table of
// shape `table`.
absl::Status CheckOfTable(const Operand& operand, int i,
                          const TensorShape& table, const TensorShape& found) {
  if (operand.by_row ? found.dims() == 1 && table.dims() > 0 &&
                           found.dim_size(0) == table.dim_size(0)
                     : found.dims() == 2 && found.dim_size(0) != 0 &&
                           found.dim_size(1) == MissedSteps::kColumns) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "`", operand.name, "[", i, "]` must be ",
      operand.by_row
          ? "a vector with one element for each row of `variables"
          : absl::StrCat("a matrix with ", MissedSteps::kColumns,
                         " columns and at least one row for `variables"),
      "[", i, "]`, ", table.DebugString(), ", got ", found.DebugString()));
}

}  // namespace

absl::Status CheckLength(const std::string& name, const char* what,
                         bool optional, int count, int64_t found) {
  if (found == count || (optional && found == 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`", name, "` must have one ", what, " for each of the ", count,
      " `gradients`", optional ? " or be empty" : "", ", got ", found));
}

absl::Status FindHandle(const OpInputList& handles, int i,
                        const std::string& name,
                        const ResourceHandle** handle) {
  const int64_t count = handles[i].NumElements();
  if (count == 1) {
    *handle = &handles[i].flat<ResourceHandle>()(0);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("`", name, "[", i, "]` must be one handle, got ", count));
}

absl::Status VariableList::Lookup(OpKernelContext* context,
                                  const std::string& name) {
  name_ = name;
  OpInputList handles;
  TF_RETURN_IF_ERROR(context->input_list(name, &handles));
  variables_.reserve(handles.size());
  held_variables_.reserve(handles.size());

  static const uint64_t kGroupType =
      TypeIndex::Make<VariableGroup>().hash_code();
  for (int i = 0; i < handles.size(); ++i) {
    const ResourceHandle* handle;
    TF_RETURN_IF_ERROR(FindHandle(handles, i, name, &handle));
    if (handle->hash_code() == kGroupType) {
      if (handles.size() > 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("`", name, "[", i,
                         "]` is a group, which stands for the whole list; got ",
                         handles.size(), " handles"));
      }
      TF_RETURN_IF_ERROR(LookupResource(context, *handle, &held_group_));
      variables_ = held_group_->variables();
      if (variables_.empty()) {
        return absl::FailedPreconditionError(
            absl::StrCat("`", name, "[", i,
                         "]` is a group that was not filled; call "
                         "TfOpt>VariableGroupFill first"));
      }
    } else {
      RefCountPtr<Var> variable;
      const absl::Status status = LookupResource(context, *handle, &variable);
      if (!status.ok()) {
        return absl::FailedPreconditionError(absl::StrCat(
            "`", name, "[", i, "]` (", handle->name(),
            ") is not an initialized variable: ", status.message()));
      }
      variables_.push_back(variable.get());
      held_variables_.push_back(std::move(variable));
    }
  }
  return absl::OkStatus();
}

ScopedVariableLocks::~ScopedVariableLocks() {
  for (Mutex mutex : locked_) {
    shared_ ? mutex->unlock_shared() : mutex->unlock();
  }
}

absl::Status ScopedVariableLocks::Lock(
    const std::vector<const VariableList*>& lists, bool shared) {
  struct Entry {
    Mutex mutex;
    const VariableList* list;
    int index;
  };
  std::vector<Entry> entries;
  for (const VariableList* list : lists) {
    for (int i = 0; i < list->size(); ++i) {
      entries.push_back({(*list)[i]->mu(), list, i});
    }
  }
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const Entry& a, const Entry& b) { return a.mutex < b.mutex; });
  const auto same = std::adjacent_find(
      entries.begin(), entries.end(),
      [](const Entry& a, const Entry& b) { return a.mutex == b.mutex; });
  if (same != entries.end()) {
    const auto name = [](const Entry& entry) {
      return absl::StrCat(entry.list->name(), "[", entry.index, "]");
    };
    return absl::InvalidArgumentError(
        absl::StrCat("`", name(*same), "` and `", name(*(same + 1)),
                     "` are the same variable; each must occur once"));
  }
  locked_.reserve(entries.size());
  shared_ = shared;
  for (const Entry& entry : entries) {
    shared ? entry.mutex->lock_shared() : entry.mutex->lock();
    locked_.push_back(entry.mutex);
  }
  return absl::OkStatus();
}

absl::Status CheckVariable(const VariableList& list, int i,
                           const Operand& operand, DataType variable,
                           const TensorShape& shape, const std::string& whose) {
  const Tensor& tensor = *list[i]->tensor();
  if (!list[i]->is_initialized || !tensor.IsInitialized()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "`", list.name(), "[", i, "]` is not initialized; assign to it first"));
  }
  const DataTypeSet types = TypesOf(operand, variable);
  if (!types.Contains(tensor.dtype())) {
    const auto append = [](std::string* text, DataType type) {
      absl::StrAppend(text, DataTypeString(type));
    };
    return absl::InvalidArgumentError(
        absl::StrCat("`", operand.name, "[", i, "]` must be a variable of ",
                     absl::StrJoin(types, " or ", append), ", got ",
                     DataTypeString(tensor.dtype())));
  }
  const TensorShape& found = tensor.shape();
  if (operand.by_row || operand.storage == Storage::kCoasting) {
    return CheckOfTable(operand, i, shape, found);
  }
  const bool is_table = operand.is_stacked();
  if (DimensionsFit(found, is_table ? 1 : 0, shape, 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`", operand.name, "[", i, "]` must ", is_table ? "hold rows of" : "have",
      " the shape of `", whose, "[", i, "]`, ", shape.DebugString(), ", got ",
      found.DebugString()));
}

absl::Status MakeExclusive(OpKernelContext* context, Var* variable,
                           const CopyBytes& copy_bytes) {
  Tensor* tensor = variable->tensor();
  // An empty tensor has no buffer and no elements to protect.
  if (tensor->NumElements() == 0 || tensor->RefCountIsOne()) {
    return absl::OkStatus();
  }
  Tensor copy;
  TF_RETURN_IF_ERROR(
      context->allocate_temp(tensor->dtype(), tensor->shape(), &copy));
  TF_RETURN_IF_ERROR(
      copy_bytes(copy.data(), tensor->data(), tensor->TotalBytes()));
  *tensor = std::move(copy);
  return absl::OkStatus();
}

}  // namespace tf_opt
