// What a program compiled by XLA calls for a resource-apply op: the CPU's
// engine, in place. apply_xla_op.cc makes such calls; both say here what is
// in one.
//
// Arguments: of each operand that is there, in the order of kFrameOperands and
// then the rule's slots, the arrays of `count` variables; then the rule's
// scalars, the number of the row where a slot is a table, the vectors of
// kPerVariableInputs, the frame's scalars and the seed; then the number of a
// gradient that doesn't fit its variable, or -1. An op for sparse gradients
// has, in place of dense ones and of this, what slice_arguments.h says.
// Results: all that is updated, in the same order. Attributes: those of the op,
// and
//
//   count       how many of the op's variables this call updates
//   first       which of them is the first one
//   table_rows  how many rows all tables of the op's variables have
//
// An op may become several calls. Each makes all checks of the op, of the same
// arguments: all of them refuse a step or none does.
#ifndef TF_OPT_CC_XLA_APPLY_CALL_H_
#define TF_OPT_CC_XLA_APPLY_CALL_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/cpu_target.h"
#include "tf_opt/cc/engines/dense_cpu.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/apply_on_cpu.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/scratch.h"
#include "tf_opt/cc/kernels/slices_on_cpu.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"
#include "tf_opt/cc/xla/apply_xla_op.h"
#include "tf_opt/cc/xla/ffi_call.h"
#include "tf_opt/cc/xla/slices_of_call.h"

namespace tf_opt {

// The arrays of a call.
template <typename T>
class FfiLaunch : public ApplyLaunch<FfiLaunch<T>, T> {
 public:
  explicit FfiLaunch(const FfiCall& call) : call_(call) {}

  // Finds those before the rule's scalars; `sparse` gradients are not there.
  absl::Status FindArrays(const std::vector<Operand>& slots, bool sparse) {
    this->SetOperands(slots);
    TF_RETURN_IF_ERROR(call_.GetAttr("count", &count_));
    TF_RETURN_IF_ERROR(call_.GetAttr("first", &first_));
    TF_RETURN_IF_ERROR(call_.GetAttr("table_rows", &table_rows_));
    int64_t results = 0;
    for (const Operand& operand : this->operands()) {
      bool is_there = !sparse || operand.role != Role::kRead;
      if (operand.optional) {
        TF_RETURN_IF_ERROR(
            call_.GetAttr(absl::StrCat("num_", operand.name), &is_there));
      }
      if (!is_there) {
        places_.push_back({-1, -1});
      } else if (operand.role == Role::kRead) {
        places_.push_back({arguments_, -1});
      } else {
        places_.push_back({arguments_, results});
        results += count_;
      }
      if (is_there) arguments_ += count_;
    }
    if (arguments_ > call_.argument_count() ||
        results != call_.result_count()) {
      return OtherArguments();
    }
    if (count(kMasterWeight) > 0 && sizeof(T) != 2) {
      return NoMasterWeights(tensorflow::DataTypeToEnum<T>::value);
    }
    return absl::OkStatus();
  }

  // Reads the next arguments, which are such numbers.
  template <typename Numbers, std::size_t kCount>
  absl::Status ReadScalars(const ScalarInput<Numbers> (&inputs)[kCount],
                           Numbers* numbers) {
    for (const ScalarInput<Numbers>& input : inputs) {
      if (arguments_ == call_.argument_count()) return OtherArguments();
      input.Read(call_.argument(arguments_++).data, numbers);
    }
    return absl::OkStatus();
  }

  // Finds what comes after the rule's scalars and before the frame's.
  absl::Status FindNumbers() {
    for (std::size_t k = 0; k < this->operands().size(); ++k) {
      if (!this->operands()[k].is_row_of_table()) continue;
      if (arguments_ == call_.argument_count()) return OtherArguments();
      this->SetTable(
          k, static_cast<const int64_t*>(call_.argument(arguments_++).data));
    }
    for (PerVariable* vector :
         {&this->weight_decay_, &this->learning_rate_factors_,
          &this->gradient_factors_, &this->variable_numbers_}) {
      if (arguments_ == call_.argument_count()) return OtherArguments();
      const FfiArray array = call_.argument(arguments_++);
      vector->one_for_all = array.rank == 0;
      vector->numbers = static_cast<const double*>(array.data);
      vector->first = first_;
      vector->count = array.elements;
    }
    return absl::OkStatus();
  }

  // Reads the next argument.
  absl::Status ReadInteger(int64_t* number) {
    if (arguments_ == call_.argument_count()) return OtherArguments();
    *number = ReadOnce(
        static_cast<const int64_t*>(call_.argument(arguments_++).data));
    return absl::OkStatus();
  }

  // Checks what comes after the numbers if gradients are dense.
  absl::Status CheckGradientsFit() {
    int64_t misfit = -1;
    TF_RETURN_IF_ERROR(ReadInteger(&misfit));
    return misfit < 0 ? absl::OkStatus() : GradientDoesNotFit(misfit);
  }

  // Finds that if they are slices.
  absl::Status FindSlices(const SliceAttributes& attributes,
                          std::vector<RowSlices>* slices) {
    absl::Status status =
        tf_opt::FindSlices(call_, attributes, arguments_, count_, slices);
    arguments_ = call_.argument_count();
    return status;
  }

  // Whether there are no more arguments.
  bool HasSeenAll() const { return arguments_ == call_.argument_count(); }

  // Makes the results what the arguments are; mostly they are the same memory.
  void CopyArguments() const {
    for (const Place& place : places_) {
      for (int i = 0; place.result >= 0 && i < count_; ++i) {
        const FfiArray from = call_.argument(place.argument + i);
        const FfiArray to = call_.result(place.result + i);
        if (from.data == to.data) continue;
        std::memcpy(to.data, from.data,
                    from.elements * tensorflow::DataTypeSize(from.type));
      }
    }
  }

  // Of all tables of the op, not only those of this call.
  int64_t rows() const { return table_rows_; }

  // What ApplyLaunch asks.
  int count(int k) const { return places_[k].argument < 0 ? 0 : count_; }
  tensorflow::DataType type(int k, int i) const { return array(k, i).type; }
  void* data(int k, int i) const { return array(k, i).data; }
  int64_t elements(int k, int i) const { return array(k, i).elements; }
  int64_t first_dimension(int k, int i) const { return array(k, i).rows; }

 private:
  // Of an operand the number of its first argument and result; or -1.
  struct Place {
    int64_t argument;
    int64_t result;
  };

  FfiArray array(int k, int i) const {
    return places_[k].result < 0 ? call_.argument(places_[k].argument + i)
                                 : call_.result(places_[k].result + i);
  }

  const FfiCall& call_;
  std::vector<Place> places_;
  int64_t arguments_ = 0;  // How many have been looked at.
  int count_ = 0;
  int64_t first_ = 0;
  int64_t table_rows_ = 0;
};

template <typename Optimizer, typename T, bool kSparse>
absl::Status ApplyCallOfType(const Optimizer& optimizer, const FfiCall& call) {
  FfiLaunch<T> launch(call);
  TF_RETURN_IF_ERROR(launch.FindArrays(optimizer.slots(), kSparse));
  auto hyperparameters = optimizer.modes();
  TF_RETURN_IF_ERROR(launch.ReadScalars(Optimizer::kScalars, &hyperparameters));
  TF_RETURN_IF_ERROR(launch.FindNumbers());
  FrameInputs frame = optimizer.frame();
  TF_RETURN_IF_ERROR(launch.ReadScalars(kFrameScalars, &frame));
  TF_RETURN_IF_ERROR(launch.ReadInteger(&frame.seed));
  if (!frame.enabled) {
    launch.CopyArguments();
    return absl::OkStatus();
  }
  SliceAttributes attributes;
  std::vector<RowSlices> slices;
  if constexpr (kSparse) {
    TF_RETURN_IF_ERROR(attributes.Read(call));
    TF_RETURN_IF_ERROR(launch.FindSlices(attributes, &slices));
  } else {
    TF_RETURN_IF_ERROR(launch.CheckGradientsFit());
  }
  if (!launch.HasSeenAll()) return OtherArguments();
  launch.CopyArguments();
  absl::Status applied;
  const absl::Status status = RunOnCpu(
      optimizer, launch, hyperparameters, frame, [&](const auto& arguments) {
        if constexpr (kSparse) {
          HeapScratch scratch;
          applied =
              ApplySlices(launch, arguments, slices, attributes,
                          call.num_threads(), call.parallel_for(), &scratch);
        } else {
          ApplyDense<typename FfiLaunch<T>::Element>(
              arguments.tensors, arguments.rules, ChosenCpuTarget(),
              call.num_threads(), call.parallel_for(), arguments.update);
        }
      });
  return status.ok() ? applied : status;
}

template <typename Optimizer, bool kSparse>
absl::Status ApplyCall(const FfiCall& call) {
  Optimizer optimizer;
  TF_RETURN_IF_ERROR(optimizer.Read(call));
  if (call.argument_count() == 0) return OtherArguments();
  absl::Status status;
  const auto apply = [&](auto type) {
    status =
        ApplyCallOfType<Optimizer, decltype(type), kSparse>(optimizer, call);
  };
  return WithElementType(call.argument(0).type, apply) ? status
                                                       : OtherArguments();
}

// Registers what XLA compiles the op `name` to, and what that calls.
template <typename Optimizer, bool kSparse>
bool RegisterApplyForXla(const std::string& name) {
  return RegisterFfiFunction<ApplyCall<Optimizer, kSparse>>(name) &&
         RegisterApplyXlaOp(ApplyXlaOp::Of<Optimizer>(name, kSparse));
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_APPLY_CALL_H_
