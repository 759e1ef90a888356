// How a row of a table coasts while it waits: what the steps that it missed, in
// which its gradient was zero, would have done to it. All of them together are
//
//   p <- keep * p - moved * D(epsilon, s...)
//   s[k] <- decays[k] * s[k]
//
// where D is the rule's Direction and s are its slots. docs/formulas-sparse.md
// shows why, and what epsilon is.
#ifndef TF_OPT_CC_RULES_COASTING_H_
#define TF_OPT_CC_RULES_COASTING_H_

#include <algorithm>
#include <cstdint>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// The most slots of a rule that coasts.
inline constexpr int kMostCoastingSlots = 3;

// What a rule tells of one missed step.
struct MissedStep {
  // Factor that decay leaves of the variable: the frame's, not the rule's.
  double keep = 1.0;
  double step_size = 0.0;
  double ratio = 1.0;
  double epsilon = 0.0;
  // Factor by which epsilon grows from step to step, compared with the
  // denominator that it is added to.
  double epsilon_growth = 1.0;
  double decays[kMostCoastingSlots] = {1.0, 1.0, 1.0};
  int moving_slot = 0;  // The slot with which the direction vanishes.
};

// All steps missed since a certain one: a row of the matrix `coasting`, in this
// order. All zeros: no step.
struct MissedSteps {
  // Number of doubles.
  static constexpr int kColumns = 6 + kMostCoastingSlots;

  // Of no step.
  TF_OPT_HOST_DEVICE static MissedSteps None() {
    return {0.0, 1.0, 0.0, 0.0, 1.0, 1.0, {1, 1, 1}};
  }

  TF_OPT_HOST_DEVICE void Add(const MissedStep& step) {
    // Lion's direction keeps its size until the average is zero.
    const double ratio = decays[step.moving_slot] == 0.0 ? 0.0 : step.ratio;
    direction *= ratio;
    epsilon_size *= ratio * step.epsilon_growth;
    count += 1.0;
    keep *= step.keep;
    moved = step.keep * moved + step.step_size * direction;
    epsilons =
        step.keep * epsilons + step.step_size * (step.epsilon * epsilon_size);
    for (int k = 0; k < kMostCoastingSlots; ++k) decays[k] *= step.decays[k];
  }

  double count;
  double keep;
  double moved;
  double epsilons;   // Sum of epsilon, weighted like `moved`.
  double direction;  // Size of D, compared with the first.
  // That size times the size of epsilon, compared with the first: the one may
  // vanish while the other overflows.
  double epsilon_size;
  double decays[kMostCoastingSlots];
};
static_assert(sizeof(MissedSteps) == MissedSteps::kColumns * sizeof(double),
              "entries must be rows of the matrix");

// Missed steps in the arithmetic's type.
template <typename V>
struct Coasting {
  TF_OPT_HOST_DEVICE explicit Coasting(const MissedSteps& missed)
      : keep(missed.keep),
        moved(missed.moved),
        // Any number does if nothing moves; zero would give NaNs.
        epsilon(missed.moved == 0.0 ? 1.0 : missed.epsilons / missed.moved) {
    for (int k = 0; k < kMostCoastingSlots; ++k) decays[k] = missed.decays[k];
  }

  V keep;
  V moved;
  V epsilon;
  V decays[kMostCoastingSlots];
};

// Returns how many of these entries are in use: they come first.
TF_OPT_HOST_DEVICE inline int64_t CountMissed(const MissedSteps* entries,
                                              int64_t capacity) {
  return FirstWhere(capacity,
                    [=](int64_t k) { return !(entries[k].count > 0.0); });
}

// Returns the steps that a row missed, one of the `count` entries in use; null
// if the row is up to date.
TF_OPT_RULE_INLINE const MissedSteps* MissedBy(float since,
                                               const MissedSteps* entries,
                                               int64_t count) {
  // A wrong number, or a NaN, counts as up to date.
  const bool waits = since >= 0.0f && since < static_cast<float>(count);
  return waits ? entries + static_cast<int64_t>(since) : nullptr;
}

// Rows of one table that wait, in the memory of two variables. A row's `since`
// is the number of its missed steps' entry.
class WaitingRows {
 public:
  WaitingRows() = default;
  // `capacity` is the number of entries that there is room for. All that aren't
  // in use are zero.
  WaitingRows(float* since, int64_t rows, MissedSteps* entries,
              int64_t capacity)
      : since_(since),
        rows_(rows),
        entries_(entries),
        capacity_(capacity),
        count_(CountMissed(entries, capacity)) {}

  bool is_full() const { return count_ == capacity_; }

  // Returns the steps that a row missed; null if it is up to date.
  TF_OPT_RULE_INLINE const MissedSteps* Of(int64_t row) const {
    return MissedBy(since_[row], entries_, count_);
  }
  const float* Address(int64_t row) const { return since_ + row; }

  void MarkUpToDate(int64_t row) { since_[row] = static_cast<float>(count_); }

  void MarkAllUpToDate() {
    if (count_ == 0) return;
    std::fill_n(since_, rows_, 0.0f);
    std::fill_n(entries_, count_, MissedSteps());
    count_ = 0;
  }

  // All rows miss a step. Those that don't are marked afterwards.
  void Miss(const MissedStep& step) {
    entries_[count_++] = MissedSteps::None();
    for (int64_t k = 0; k < count_; ++k) entries_[k].Add(step);
  }

 private:
  float* since_ = nullptr;
  int64_t rows_ = 0;
  MissedSteps* entries_ = nullptr;
  int64_t capacity_ = 0;
  int64_t count_ = 0;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_COASTING_H_
