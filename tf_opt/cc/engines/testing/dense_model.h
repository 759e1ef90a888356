// Tensors for the tests of engines: known numbers, and memory around them that
// an engine must leave alone.
#ifndef TF_OPT_CC_ENGINES_TESTING_DENSE_MODEL_H_
#define TF_OPT_CC_ENGINES_TESTING_DENSE_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

template <typename T>
T FromBits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Converts a scalar by the definition of the formats.
inline double ToDouble(Half value) {
  const int sign = value.bits >> 15 ? -1 : 1;
  const int exponent = (value.bits >> 10) & 31;
  const int fraction = value.bits & 1023;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}
inline double ToDouble(BFloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}
inline double ToDouble(float value) { return value; }
inline double ToDouble(double value) { return value; }

// An array that begins `offset` elements after an aligned address.
template <typename E, template <typename> class Allocator>
class PaddedArray {
 public:
  PaddedArray(int64_t size, int offset)
      : size_(size), offset_(offset), memory_(offset + size + kPadding) {
    std::memset(static_cast<void*>(memory_.data()), kPoison,
                memory_.size() * sizeof(E));
  }

  E* data() { return memory_.data() + offset_; }
  const E* data() const { return memory_.data() + offset_; }
  int64_t size() const { return size_; }
  E* begin() { return data(); }
  E* end() { return data() + size_; }
  const E& operator[](int64_t i) const { return data()[i]; }

  bool SameBits(const PaddedArray& other) const {
    return size_ == other.size_ &&
           (size_ == 0 ||
            std::memcmp(data(), other.data(), size_ * sizeof(E)) == 0);
  }
  bool PaddingIsUntouched() const {
    const auto poisoned = [](const E* from, int64_t count) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(from);
      return std::all_of(bytes, bytes + count * sizeof(E),
                         [](unsigned char byte) { return byte == kPoison; });
    };
    return poisoned(memory_.data(), offset_) &&
           poisoned(data() + size_, kPadding);
  }

 private:
  static constexpr int kPadding = 64;
  static constexpr unsigned char kPoison = 0xa5;

  int64_t size_;
  int offset_;
  std::vector<E, Allocator<E>> memory_;
};

template <typename A, typename B>
std::vector<std::pair<A, B>> Pairs(const std::vector<A>& all_a,
                                   const std::vector<B>& all_b) {
  std::vector<std::pair<A, B>> pairs;
  for (const A& a : all_a) {
    for (const B& b : all_b) pairs.emplace_back(a, b);
  }
  return pairs;
}

// Every part of a frame, on and off.
inline std::vector<FrameInputs> AllFrames() {
  FrameInputs update;
  update.gradient_scale = 0.75;
  update.clip_value = 1.25;
  update.ema_momentum = 0.9;
  update.iteration = 7;
  update.seed = -3;
  update.uses_random_bits = true;
  FrameInputs overwrite = update;
  overwrite.overwrite_with_average = true;
  overwrite.stochastic_rounding = true;
  FrameInputs accumulate = update;
  accumulate.update = false;
  FrameInputs accumulate_and_overwrite = overwrite;
  accumulate_and_overwrite.update = false;
  return {update, overwrite, accumulate, accumulate_and_overwrite};
}

// How a model's tensors are stored.
struct Stored {
  StateType state = StateType::kArithmetic;  // Slots and averages.
  bool master_weights = false;
  // Slots whose type is not state; null if all are state.
  const Operand* slots = nullptr;
};

// All storage types for variables of type T and their state.
template <typename T, typename Description>
std::vector<Stored> AllStored() {
  std::vector<Stored> all = {{}, {StateType::kBFloat16}};
  if (sizeof(T) == 2) {
    all.push_back({StateType::kArithmetic, true});
    all.push_back({StateType::kBFloat16, true});
  }
  if (std::is_same<T, double>::value) all.push_back({StateType::kFloat});
  for (Stored& stored : all) stored.slots = Description::kSlotOperands;
  return all;
}

// Some tensors with their slots, filled with the same numbers every time.
template <typename T, int kSlots,
          template <typename> class Allocator = std::allocator>
struct DenseModel {
  // A framed model also has accumulators and averages.
  explicit DenseModel(const std::vector<int64_t>& sizes, int offset = 0,
                      bool framed = false, Stored stored = {})
      : stored(stored) {
    std::mt19937 random(7);
    for (const int64_t size : sizes) {
      variables.emplace_back(size, offset);
      gradients.emplace_back(size, offset);
      for (auto* values : {&variables.back(), &gradients.back()}) {
        for (T& value : *values) value = Small(random());
      }
      for (int k = 0; k < kSlots; ++k) {
        slots.emplace_back(size, offset);
        for (auto& value : slots.back()) value = (random() % 1000) * 1e-3;
      }
      if (!framed) continue;
      for (auto* arrays : {&accumulators, &averages}) {
        arrays->emplace_back(size, offset);
        for (auto& value : arrays->back()) value = (random() % 1000) * 1e-3;
      }
    }
    for (const int64_t size : sizes) {
      if (stored.master_weights) AddMasterWeights(size, offset, &random);
      for (int k = 0; k < kSlots + framed; ++k) {
        if (stored.state == StateType::kBFloat16) {
          bfloat16_state.emplace_back(size, offset);
          for (auto& value : bfloat16_state.back()) {
            value = FromBits<BFloat16>(0x3e00 | (random() & 0x1ff));
          }
        } else if (stored.state == StateType::kFloat) {
          float_state.emplace_back(size, offset);
          for (auto& value : float_state.back()) value = random() * 0x1p-32f;
        }
      }
    }
  }

  // Most round to their variables, some don't.
  void AddMasterWeights(int64_t size, int offset, std::mt19937* random) {
    const auto& variable = variables[master_weights.size()];
    master_weights.emplace_back(size, offset);
    for (int64_t i = 0; i < size; ++i) {
      const double fraction = (*random)() * 0x1p-32 - 0.5;
      const double distance = (*random)() % 8 == 0 ? 0x1p-4 : 0x1p-11;
      master_weights.back().data()[i] =
          ToDouble(variable[i]) + fraction * distance;
    }
  }

  // A number between 1 and 2 with a random fraction.
  static T Small(uint32_t random) {
    if constexpr (sizeof(T) == 2) {
      return std::is_same<T, Half>::value
                 ? FromBits<T>(0x3c00 | (random & 0x3ff))
                 : FromBits<T>(0x3f80 | (random & 0x7f));
    } else {
      return 1 + (random % 100000) * T(1e-5);
    }
  }

  // Puts infinities, zeros, the smallest, largest and subnormal numbers of both
  // signs and NaNs with many payloads, quiet and signaling, in many places.
  void AddSpecialNumbers() {
    std::mt19937_64 random(8);
    const auto add = [&random](auto* array) {
      for (auto& value : *array) {
        if (random() % 4 == 0)
          value = Special<std::decay_t<decltype(value)>>(random());
      }
    };
    for (auto& array : variables) add(&array);
    for (auto& array : gradients) add(&array);
    for (auto* arrays : {&slots, &accumulators, &averages, &master_weights}) {
      for (auto& array : *arrays) add(&array);
    }
    for (auto& array : bfloat16_state) add(&array);
    for (auto& array : float_state) add(&array);
  }

  template <typename E>
  static E Special(uint64_t random) {
    constexpr int kBits = 8 * sizeof(E);
    constexpr int kFraction = std::is_same<E, Half>::value       ? 10
                              : std::is_same<E, BFloat16>::value ? 7
                              : sizeof(E) == 4                   ? 23
                                                                 : 52;
    constexpr uint64_t kLowest = uint64_t{1} << kFraction;
    constexpr uint64_t kInfinity = (uint64_t{1} << (kBits - 1)) - kLowest;
    const uint64_t fraction = (random >> 8) & (kLowest - 1);
    const uint64_t magnitudes[] = {
        0, fraction, kLowest, kInfinity, kInfinity - 1, kInfinity | fraction};
    return FromBits<E>(magnitudes[random % 6] | (random >> 7 & 1)
                                                    << (kBits - 1));
  }

  std::vector<DenseTensor<T, kSlots>> Tensors() {
    std::vector<DenseTensor<T, kSlots>> tensors;
    for (size_t i = 0; i < variables.size(); ++i) {
      DenseTensor<T, kSlots> tensor;
      tensor.operands[kVariable] = variables[i].data();
      tensor.operands[kGradient] = gradients[i].data();
      for (int k = 0; k < kSlots; ++k) {
        tensor.operands[kFrameOperandCount + k] = slots[i * kSlots + k].data();
      }
      tensor.size = variables[i].size();
      if (!averages.empty()) {
        tensor.operands[kAccumulator] = accumulators[i].data();
        tensor.operands[kAverage] = averages[i].data();
      }
      if (stored.master_weights) {
        tensor.operands[kMasterWeight] = master_weights[i].data();
      }
      for (int k = 0; k < StateCount(); ++k) StoreShort(i, k, &tensor);
      tensors.push_back(tensor);
    }
    return tensors;
  }

  // Number of a tensor's operands that are state.
  int StateCount() const { return kSlots + (averages.empty() ? 0 : 1); }

  // Gives the i-th tensor's k-th state memory of a shorter type.
  void StoreShort(size_t i, int k, DenseTensor<T, kSlots>* tensor) {
    if (stored.state == StateType::kArithmetic ||
        (k < kSlots && stored.slots != nullptr &&
         stored.slots[k].storage != Storage::kState)) {
      return;
    }
    const int operand = k < kSlots ? kFrameOperandCount + k : int{kAverage};
    const size_t at = i * StateCount() + k;
    tensor->types[operand] = stored.state;
    tensor->operands[operand] =
        stored.state == StateType::kBFloat16
            ? static_cast<void*>(bfloat16_state[at].data())
            : static_cast<void*>(float_state[at].data());
  }

  bool SameBits(const DenseModel& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return std::equal(
          a.begin(), a.end(), b.begin(), b.end(),
          [](const auto& x, const auto& y) { return x.SameBits(y); });
    };
    return same(variables, other.variables) && same(slots, other.slots) &&
           same(accumulators, other.accumulators) &&
           same(averages, other.averages) &&
           same(master_weights, other.master_weights) &&
           same(bfloat16_state, other.bfloat16_state) &&
           same(float_state, other.float_state);
  }

  bool PaddingIsUntouched() const {
    const auto untouched = [](const auto& arrays) {
      return std::all_of(arrays.begin(), arrays.end(), [](const auto& array) {
        return array.PaddingIsUntouched();
      });
    };
    return untouched(variables) && untouched(gradients) && untouched(slots) &&
           untouched(accumulators) && untouched(averages) &&
           untouched(master_weights) && untouched(bfloat16_state) &&
           untouched(float_state);
  }

  Stored stored;
  std::vector<PaddedArray<T, Allocator>> variables, gradients;
  std::vector<PaddedArray<ComputeType<T>, Allocator>> slots, accumulators,
      averages, master_weights;
  // A tensor's slots, then its average, in place of those above.
  std::vector<PaddedArray<BFloat16, Allocator>> bfloat16_state;
  std::vector<PaddedArray<float, Allocator>> float_state;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_DENSE_MODEL_H_
