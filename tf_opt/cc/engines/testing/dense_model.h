// Steps for the tests of engines: numbers of which each part counts, and
// tensors with memory around them that an engine must leave alone.
#ifndef TF_OPT_CC_ENGINES_TESTING_DENSE_MODEL_H_
#define TF_OPT_CC_ENGINES_TESTING_DENSE_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/scalar_input.h"
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

// Rounds a number to a T.
template <typename T>
T Rounded(double x) {
  if constexpr (std::is_same<T, Half>::value) {
    return {static_cast<uint16_t>(HalfNearest(x))};
  } else if constexpr (std::is_same<T, BFloat16>::value) {
    return {static_cast<uint16_t>(BFloat16Nearest(x))};
  } else {
    return static_cast<T>(x);
  }
}

// An array, and memory around it that an engine must leave alone.
class PaddedArray {
 public:
  PaddedArray(int64_t bytes, int64_t offset)
      : begin_(offset),
        end_(offset + bytes),
        memory_(end_ + kPadding, kPoison) {}

  void* data() { return memory_.data() + begin_; }

  bool operator==(const PaddedArray& other) const {
    return memory_ == other.memory_;
  }

  bool PaddingIsUntouched() const {
    const auto poisoned = [](unsigned char byte) { return byte == kPoison; };
    return std::all_of(memory_.begin(), memory_.begin() + begin_, poisoned) &&
           std::all_of(memory_.begin() + end_, memory_.end(), poisoned);
  }

 private:
  static constexpr int kPadding = 64;
  static constexpr unsigned char kPoison = 0xa5;

  int64_t begin_;
  int64_t end_;
  std::vector<unsigned char> memory_;
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
  overwrite.maximize = true;
  overwrite.decoupled_weight_decay = false;
  overwrite.stochastic_rounding = true;
  FrameInputs accumulate = update;
  accumulate.update = false;
  FrameInputs accumulate_and_overwrite = overwrite;
  accumulate_and_overwrite.update = false;
  return {update, overwrite, accumulate, accumulate_and_overwrite};
}

// A number in this range for step t.
inline double NumberIn(Range range, int t) {
  switch (range) {
    case Range::kDecayRate:
      return 0.75;
    case Range::kFraction:
      return 0.5;
    case Range::kNonNegative:
      return 0.0625 / t;
    case Range::kPositive:
      return t;
    default:
      return 0.45;
  }
}

// The hyperparameters of step t without any mode.
template <typename Description>
typename Description::Hyperparameters HyperparametersAt(int t) {
  typename Description::Hyperparameters hyperparameters;
  for (const auto& input : Description::kScalars) {
    if (input.integer != nullptr) {
      hyperparameters.*input.integer = t;
    } else {
      hyperparameters.*input.number = NumberIn(input.range, t);
    }
  }
  return hyperparameters;
}

// How tensors are stored.
struct Stored {
  StateType state = StateType::kArithmetic;  // Slots and averages.
  bool master_weights = false;
};

// All storage types for variables of type T and their state.
template <typename T>
std::vector<Stored> AllStored() {
  std::vector<Stored> all = {{}, {StateType::kBFloat16}};
  if (sizeof(T) == 2) {
    all.push_back({StateType::kArithmetic, true});
    all.push_back({StateType::kBFloat16, true});
  }
  if (std::is_same<T, double>::value) all.push_back({StateType::kFloat});
  return all;
}

// A step for a test.
struct Setting {
  FrameInputs frame = {};
  Stored stored = {};
  bool framed = false;   // True if the model has accumulators and averages.
  bool special = false;  // True if special numbers are in many places.
};

inline std::ostream& operator<<(std::ostream& to, const Setting& setting) {
  return to << "framed " << setting.framed << ", update "
            << setting.frame.update << ", stochastic rounding "
            << setting.frame.stochastic_rounding << ", state "
            << static_cast<int>(setting.stored.state) << ", master weights "
            << setting.stored.master_weights << ", special " << setting.special;
}

template <typename T>
std::vector<Setting> AllSettings() {
  std::vector<Setting> all;
  // It leaves the gradient as it is.
  FrameInputs plain;
  plain.uses_random_bits = true;
  for (const Stored& stored : AllStored<T>()) {
    for (const FrameInputs& frame : AllFrames()) {
      all.push_back({frame, stored, true, true});
    }
    for (const bool special : {false, true}) {
      plain.stochastic_rounding = special;
      all.push_back({plain, stored, false, special});
    }
  }
  return all;
}

// An infinity, a zero, a smallest, largest, subnormal or any other number of
// either sign, or a quiet or signaling NaN with some payload.
template <typename E>
E Special(uint64_t random) {
  constexpr int kBits = 8 * sizeof(E);
  constexpr int kFraction = std::is_same<E, Half>::value       ? 10
                            : std::is_same<E, BFloat16>::value ? 7
                            : sizeof(E) == 4                   ? 23
                                                               : 52;
  constexpr uint64_t kLowest = uint64_t{1} << kFraction;
  constexpr uint64_t kInfinity = (uint64_t{1} << (kBits - 1)) - kLowest;
  const uint64_t fraction = (random >> 8) & (kLowest - 1);
  const uint64_t magnitudes[] = {0,
                                 fraction,
                                 kLowest,
                                 kInfinity,
                                 kInfinity - 1,
                                 kInfinity | fraction,
                                 (random >> 8) & (kInfinity + kLowest - 1)};
  return FromBits<E>(magnitudes[random % 7] | (random >> 7 & 1) << (kBits - 1));
}

// Elements of a row of an array of `size` elements.
inline int64_t WidthOf(int64_t size) {
  int64_t width = std::min<int64_t>(size, 2);
  while (width > 0 && size % width != 0) ++width;
  return width;
}

// Sizes of gradients that are measured: around lanes, what is added of them at
// a time, and tiles; more tiles than lanes; empty ones first, in between and
// last.
inline std::vector<int64_t> MeasuredSizes() {
  return std::vector<int64_t>(
      {0, 1, 3, 127, 128, 129, 0, 511, 512, 513, 1025, kTileSize - 1, kTileSize,
       kTileSize + 1, 3 * kTileSize + 5, 130 * kTileSize + 131, 31, 0});
}

// Some tensors with their operands, filled with the same numbers every time.
template <typename T, typename Rule>
class DenseModel {
 public:
  using Tensor = DenseTensor<T>;
  using V = ComputeType<T>;
  static constexpr int kOperands = kFrameOperandCount + Rule::kSlots;

  // Arrays begin `offset` elements after an aligned address.
  explicit DenseModel(const std::vector<int64_t>& sizes,
                      const Setting& setting = {}, int offset = 0) {
    for (const int64_t size : sizes) {
      Tensor tensor;
      tensor.size = size;
      // As many as rows could be.
      row_states_.emplace_back(Rule::kRowWise ? size * sizeof(V) : 0,
                               offset * sizeof(V));
      for (int k = 0; k < kOperands; ++k) {
        const bool is_framed = k == kAccumulator || k == kAverage;
        if ((is_framed && !setting.framed) ||
            (k == kMasterWeight && !setting.stored.master_weights)) {
          arrays_.emplace_back(0, 0);
          continue;
        }
        const Operand& operand = k < kFrameOperandCount
                                     ? kFrameOperands[k]
                                     : kSlotsOf<Rule>[k - kFrameOperandCount];
        if (operand.storage == Storage::kState) {
          tensor.types[k] = setting.stored.state;
        }
        const int64_t bytes = tensor.ElementSize(k);
        arrays_.emplace_back(size * bytes, offset * bytes);
        tensor.operands[k] = arrays_.back().data();
      }
      tensors_.push_back(tensor);
    }
    Fill();
    if (setting.special) AddSpecialNumbers();
  }

  std::vector<Tensor> Tensors() {
    // A copy of a model has arrays of its own.
    auto array = arrays_.begin();
    for (Tensor& tensor : tensors_) {
      for (int k = 0; k < kOperands; ++k, ++array) {
        if (tensor.operands[k] != nullptr) tensor.operands[k] = array->data();
      }
    }
    return tensors_;
  }

  // The states of the rows of tensor i.
  V* row_states(std::size_t i) {
    return static_cast<V*>(row_states_[i].data());
  }

  bool SameBits(const DenseModel& other) const {
    return arrays_ == other.arrays_ && row_states_ == other.row_states_;
  }

  bool PaddingIsUntouched() const {
    const auto untouched = [](const PaddedArray& array) {
      return array.PaddingIsUntouched();
    };
    return std::all_of(arrays_.begin(), arrays_.end(), untouched) &&
           std::all_of(row_states_.begin(), row_states_.end(), untouched);
  }

 private:
  // Calls use(tensor, k, values) for each operand k of each tensor.
  template <typename Use>
  void ForArrays(const Use& use) {
    auto row_states = row_states_.begin();
    for (const Tensor& tensor : Tensors()) {
      for (int k = 0; k < kOperands; ++k) {
        void* const values = tensor.operands[k];
        if (values == nullptr) continue;
        if (k == kVariable || k == kGradient) {
          use(tensor, k, static_cast<T*>(values));
        } else if (tensor.types[k] == StateType::kBFloat16) {
          use(tensor, k, static_cast<BFloat16*>(values));
        } else if (tensor.types[k] == StateType::kFloat) {
          use(tensor, k, static_cast<float*>(values));
        } else {
          use(tensor, k, static_cast<V*>(values));
        }
      }
      void* const states = (row_states++)->data();
      if (Rule::kRowWise) use(tensor, kOperands, static_cast<V*>(states));
    }
  }

  void Fill() {
    std::mt19937 random(7);
    ForArrays([&random](const Tensor& tensor, int k, auto* values) {
      for (int64_t i = 0; i < tensor.size; ++i) {
        const double fraction = random() * 0x1p-32;
        // Most master weights round to their variables, some don't.
        const double distance = random() % 8 == 0 ? 0x1p-4 : 0x1p-11;
        values[i] = Rounded<std::decay_t<decltype(*values)>>(
            k == kVariable || k == kGradient ? 1 + fraction
            : k == kMasterWeight
                ? ToDouble(tensor.variable()[i]) + (fraction - 0.5) * distance
                : fraction);
      }
    });
  }

  void AddSpecialNumbers() {
    std::mt19937_64 random(8);
    ForArrays([&random](const Tensor& tensor, int, auto* values) {
      for (int64_t i = 0; i < tensor.size; ++i) {
        if (random() % 4 != 0) continue;
        values[i] = Special<std::decay_t<decltype(*values)>>(random());
      }
    });
  }

  std::vector<Tensor> tensors_;
  // Of each tensor one for each operand; those of absent ones are empty.
  std::vector<PaddedArray> arrays_;
  std::vector<PaddedArray> row_states_;  // Of each tensor.
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_DENSE_MODEL_H_
