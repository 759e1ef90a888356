// How a step's numbers, in the memory of a GPU, become a rule for each tensor,
// there: nothing is read back, so a step needs no synchronization and can be
// replayed as part of a CUDA graph with other numbers.
#ifndef TF_OPT_CC_ENGINES_GPU_RULES_H_
#define TF_OPT_CC_ENGINES_GPU_RULES_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <type_traits>

#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// What a step goes by. All pointers are to the device's memory.
template <typename Hyperparameters>
struct GpuStepInputs {
  // The host's own text is out of a device's reach.
  static constexpr int kNameCapacity = 24;
  using Name = char[kNameCapacity];

  struct Entry {
    ScalarInput<Hyperparameters> input;
    Name name;
    const void* at;
  };
  static constexpr int kCapacity = 8;

  void Add(const ScalarInput<Hyperparameters>& input, const void* at) {
    Entry& entry = entries[count++];
    entry.input = input;
    std::snprintf(entry.name, kNameCapacity, "%s", input.name);
    entry.at = at;
  }

  // Slot `slot` is a row of a table, the one whose number is at `at`.
  void SetRow(int slot, const char* name, int64_t row_count,
              const int64_t* at) {
    table_slot = slot;
    std::snprintf(row_name, kNameCapacity, "%s", name);
    rows = row_count;
    row = at;
  }

  Hyperparameters modes;  // With what the host knows already.
  int count = 0;
  Entry entries[kCapacity];
  const double* weight_decay = nullptr;  // One for each tensor.
  int table_slot = -1;                   // Negative: no slot is one.
  Name row_name;
  int64_t rows = 0;
  const int64_t* row = nullptr;
};

// The rules of a step, in the device's memory.
template <typename Rule>
class GpuRules {
  static_assert(std::is_trivially_copyable<Rule>::value,
                "rules lie in memory that nobody constructed");

 public:
  // `memory` must be aligned for doubles.
  TF_OPT_HOST_DEVICE explicit GpuRules(void* memory)
      : header_(static_cast<Header*>(memory)),
        rules_(reinterpret_cast<Rule*>(header_ + 1)) {}

  static std::size_t Bytes(std::size_t tensors) {
    return sizeof(Header) + tensors * sizeof(Rule);
  }

  // Computes what thread `i` contributes: tensor i's rule. Thread 0 also checks
  // all numbers. One out of its range makes the rules invalid and is printed:
  // an error can't be returned from a device without waiting for it.
  template <typename Hyperparameters>
  TF_OPT_HOST_DEVICE void Compute(const GpuStepInputs<Hyperparameters>& inputs,
                                  int64_t i) const {
    Hyperparameters hyperparameters = inputs.modes;
    for (int k = 0; k < inputs.count; ++k) {
      inputs.entries[k].input.Read(inputs.entries[k].at, &hyperparameters);
    }
    rules_[i] =
        Rule(typename Rule::Step(hyperparameters), inputs.weight_decay[i]);
    if (i == 0) {
      const int64_t row = inputs.row == nullptr ? 0 : ReadOnce(inputs.row);
      const bool numbers_are_valid = CheckNumbers(inputs, hyperparameters);
      *header_ = {row, CheckRow(inputs, row) && numbers_are_valid};
    }
  }

  // Whether a step may be done at all.
  TF_OPT_HOST_DEVICE bool valid() const { return header_->valid; }
  TF_OPT_HOST_DEVICE int64_t row() const { return header_->row; }
  TF_OPT_HOST_DEVICE const Rule& operator[](int64_t i) const {
    return rules_[i];
  }

 private:
  struct alignas(16) Header {
    int64_t row;
    bool valid;
  };

  template <typename Hyperparameters>
  TF_OPT_HOST_DEVICE static bool CheckNumbers(
      const GpuStepInputs<Hyperparameters>& inputs,
      const Hyperparameters& hyperparameters) {
    bool valid = true;
    for (int k = 0; k < inputs.count; ++k) {
      const ScalarInput<Hyperparameters>& input = inputs.entries[k].input;
      if (input.InRange(hyperparameters)) continue;
      valid = false;
      printf("tf_opt: `%s` must be %s, got %g; nothing was written\n",
             inputs.entries[k].name, Describe(input.range),
             input.Get(hyperparameters));
    }
    return valid;
  }

  template <typename Hyperparameters>
  TF_OPT_HOST_DEVICE static bool CheckRow(
      const GpuStepInputs<Hyperparameters>& inputs, int64_t row) {
    if (inputs.row == nullptr || (row >= 0 && row < inputs.rows)) return true;
    printf("tf_opt: `%s` must be in [0, %lld), got %lld; nothing was written\n",
           inputs.row_name, static_cast<long long>(inputs.rows),
           static_cast<long long>(row));
    return false;
  }

  Header* header_;
  Rule* rules_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_RULES_H_
