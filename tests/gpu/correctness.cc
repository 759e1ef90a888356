// Steps on a GPU beside the CPU engine's: every rule, variable type and mode
// with all that may surround a rule, dense and over rows of tables. All bits
// must be the same, also those between arrays. Steps are launched, or replayed
// by a CUDA graph. Then wrong numbers and rows, merged gradients and measures,
// and more elements than 32 bits can count. Emulated, the order of the threads
// changes from launch to launch.
//
//   correctness [--quick | --brief]
//
// --quick leaves out the tensors that take a machine without a GPU too long,
// --brief most of the steps, too, for compute-sanitizer. run.sh builds and runs
// it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/device.h"
#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/engines/cpu/measure_cpu.h"
#include "tf_opt/cc/engines/cpu/merge_cpu.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/all_rules.h"

namespace tf_opt {
namespace {

using E = ElementType;

bool quick = false;
bool brief = false;

std::mt19937_64 random_bits;
int Any(int count) { return random_bits() % count; }

// Memory of the host and the device, with poison between arrays.
class Memory {
 public:
  // Returns a new array; null if it is empty, as TensorFlow's are.
  template <typename N>
  N* New(int64_t count, bool misaligned = false, int64_t size = sizeof(N)) {
    if (count == 0) return nullptr;
    const int64_t begin = (used_ + 127) / 64 * 64 + (misaligned ? size : 0);
    const int64_t end = begin + count * size;
    Require(end + 64 < kBytes ? nullptr : "too little memory");
    std::memset(at(used_), 0xff, end + 64 - used_);
    used_ = end;
    return static_cast<N*>(static_cast<void*>(at(begin)));
  }
  void Clear() { used_ = 0; }

  // Returns whether both write the same bits. A CUDA graph replays every third
  // launch.
  template <typename OnHost, typename Launch>
  bool WriteTheSame(const OnHost& on_host, const Launch& launch) {
    const int64_t end = used_ + 64;
    const std::string before(at(0), end);
    on_host();
    const std::string expected(at(0), end);
    std::copy(before.begin(), before.end(), at(0));
    char* workspace_end = nullptr;
    NextThreadOrder();
    const Work work = [&](void* stream) {
      return launch(GpuQueue{stream, [&](std::size_t bytes) {
                               used_ = end;
                               char* const begin = New<char>(bytes + 1);
                               workspace_end = begin + bytes;
                               return begin;
                             }});
    };
    if (++launched_ % 3 == 0) {
      Graph graph(work);
      Require(graph(nullptr));
      WaitForDevice();
    } else {
      Require(work(nullptr));
    }
    WaitForDevice();
    const std::string behind(workspace_end, 64);
    used_ = end - 64;
    return expected == std::string(at(0), end) &&
           behind == std::string(64, '\xff');
  }

 private:
  static constexpr int64_t kBytes = 128 << 20;

  char* at(int64_t byte) { return static_cast<char*>(memory_.get()) + byte; }

  const DeviceMemory memory_ = AllocateShared(kBytes);
  int64_t used_ = 0;
  int launched_ = 0;
} memory;

enum class Ids { kDifferent, kZipf, kOne, kAscending };

struct Table {
  int64_t entries() const { return count + more; }
  int64_t size() const { return rows * width; }

  int64_t rows, width;
  Ids ids = Ids::kZipf;
  int64_t count = 0;  // Entries with values, ...
  int64_t more = 0;   // ... and without.
};
using Tables = std::vector<Table>;

// As bits: all arrays an element off; infinities, NaNs and subnormal numbers,
// in values of rows only infinities; ids int64_t, not int32_t; some entries of
// no row.
enum { kMisaligned = 1, kSpecial = 2, kWideIds = 4, kUnused = 8 };

double Unit(int64_t place) {
  const double x = 0.6180339887498949 * place;
  return x - std::floor(x);
}

// The row of an entry in a step.
int64_t RowOf(const Table& table, int64_t entry, int step) {
  switch (table.ids) {
    case Ids::kDifferent:  // 7 must not divide the rows.
      return (7 * entry + step) % table.rows;
    case Ids::kZipf:
      return std::pow(table.rows + 1.0, Unit(1000 * step + entry)) - 1;
    case Ids::kOne:
      return step % table.rows;
    default:
      return entry * table.rows / table.entries();
  }
}

// Calls use(N()) with the type.
template <typename Use>
auto WithType(E type, const Use& use) {
  return WithElementType(
      type, [&](auto tag) { return use(typename decltype(tag)::type()); });
}
int64_t SizeOf(E type) {
  return WithType(type, [](auto zero) { return sizeof(zero); });
}
// Rounds a number to a type and stores it, or a special one.
void Put(double number, E type, void* array, int64_t at, bool special = false) {
  WithType(type, [&](auto zero) {
    using N = decltype(zero);
    static_cast<N*>(array)[at] =
        special
            ? Special<N>(random_bits())
            : EmulatedConvert::Narrow(static_cast<ComputeType<N>>(number), N());
  });
}

// The gradient of some rows of a table.
struct Gradient {
  Gradient(const Table& table, E element, unsigned bits)
      : table(table),
        element(element),
        bits(bits),
        unused((bits & kWideIds ? INT64_MAX : INT32_MAX) - 1),
        rows(table.entries()),
        entries(2 * table.entries()),
        values(memory.New<char>(table.count * table.width, bits & kMisaligned,
                                SizeOf(element))),
        ids(NewIds(table.count)),
        more_ids(NewIds(table.more)) {}

  // For a step. A sum's bits tell its order: large numbers cancel out.
  void Fill(int step) {
    for (int64_t k = 0; k < table.entries(); ++k) {
      const bool has_row = !(bits & kUnused) || k % 11 != 4;
      SetRow(k, has_row ? RowOf(table, k, step) : unused);
    }
    for (int64_t at = 0; at < table.count * table.width; ++at) {
      const int64_t k = at / table.width;
      const double size = bits & kSpecial && k == 5 ? INFINITY
                          : at % 13 == 7            ? 0
                          : k % 2 == 0 ? 4096 + 4096 * Unit(at % table.width)
                                       : 0x1p-8 + 0x1p-8 * Unit(at);
      Put(k % 4 < 2 ? size : -size, element, values, at);
    }
  }
  void SetRow(int64_t entry, int64_t row) {
    rows[entry] = row;
    entry < table.count ? Write(row, ids, entry)
                        : Write(row, more_ids, entry - table.count);
  }

  char* NewIds(int64_t count) const {
    return memory.New<char>(count, bits & kMisaligned, bits & kWideIds ? 8 : 4);
  }
  void Write(int64_t row, void* to, int64_t at) const {
    if (bits & kWideIds) {
      static_cast<int64_t*>(to)[at] = row;
    } else {
      static_cast<int32_t*>(to)[at] = static_cast<int32_t>(row);
    }
  }

  GpuSlices ForGpu(int64_t capacity = 0) const {
    return {{values, ids, table.count, more_ids, table.more,
             (bits & kWideIds) != 0, table.rows, table.width},
            capacity};
  }
  template <typename T>
  SparseGradient<T> ForCpu() {
    RowEntry<int64_t>* end = entries.data();
    for (int64_t k = 0; k < table.entries(); ++k) {
      if (rows[k] == unused) continue;
      *end++ = {rows[k], k < table.count ? k : kNoValues};
    }
    const int64_t count = end - entries.data();
    const auto* sorted = SortByRow(table.rows, count, entries.data(), end);
    return {static_cast<T*>(static_cast<void*>(values)),
            table.width,
            {sorted, count}};
  }

  Table table;
  E element;
  unsigned bits;
  int64_t unused;
  std::vector<int64_t> rows;
  std::vector<RowEntry<int64_t>> entries;  // And room to sort them.
  char *values, *ids, *more_ids;
};

// Tells of a wrong row of the i-th table.
void SetReport(const Table& table, int i, int64_t entry, int64_t row,
               BadRow* report) {
  report->table = i + 1;
  report->has_values = entry < table.count;
  report->row = row;
  report->at = entry < table.count ? entry : entry - table.count;
  report->rows = table.rows;
}

enum class Form { kDense, kExact, kLazy, kWaiting };

struct How {
  Form form;
  E element;
  int variant = 0;     // See rules/description.h.
  unsigned modes = 0;  // The attributes that only this op has, as bits.
  unsigned bits = 0;
  Stored stored;
  bool framed = false;  // With accumulators and averages.
};

template <typename Description>
const RuleMakers kMakersOf = {&MakeRules<Description, float>,
                              &MakeRules<Description, double>};

// Steps of an optimizer over tables.
template <typename Description>
class Steps {
 public:
  Steps(const Tables& tables, const How& how)
      : tables_(tables), count_(tables.size()), how_(how) {
    memory.Clear();
    report_ = memory.New<BadRow>(1);
    *report_ = {};
    layer_ = memory.New<int64_t>(1);
    *layer_ = how.bits & kMisaligned ? kLayers - 1 : 0;
    hyperparameters_ = memory.New<Hyperparameters>(1);
    frame_ = memory.New<FrameInputs>(1);
    double* const numbers = memory.New<double>(4 * count_);
    for (int k = 0; k < 4; ++k) {
      vectors_.inputs[k].numbers = numbers + k * count_;
    }
    arrays_.element = how.element;
    for (int i = 0; i < count_; ++i) {
      arrays_.sizes.push_back(tables[i].size());
      arrays_.widths.push_back(tables[i].width);
      const double own[] = {0.01 * (i % 10), 1.5, 1.25, 1.0 * i};
      for (int k = 0; k < 4; ++k) numbers[k * count_ + i] = own[k];
      if (how.form == Form::kDense) continue;
      gradients_.emplace_back(tables[i], how.element, how.bits);
    }
    for (const Operand& operand : kFrameOperands) AddArrays(operand);
    WithRule<Description, float>(how.variant, [this](auto tag) {
      using Rule = typename decltype(tag)::type;
      for (const Operand& slot : kSlotsOf<Rule>) AddArrays(slot);
      if (Rule::kRowWise) AddArrays(Operand("").ByRow());
    });
    slots_ = operands_.size() - kFrameOperandCount;
    if (how.form != Form::kWaiting) return;
    for (const Operand& operand : kWaitingOperands) AddArrays(operand);
  }

  // Sets the numbers and gradients of the next step.
  void Set(const FrameInputs& frame, bool lazy) {
    ++step_;
    lazy_ = lazy;
    *hyperparameters_ = HyperparametersAt<Description>(step_);
    for (std::size_t k = 0; k < std::size(Description::kModes); ++k) {
      hyperparameters_->*Description::kModes[k].boolean = how_.modes >> k & 1;
    }
    *frame_ = frame;
    frame_->iteration += step_;
    for (Gradient& gradient : gradients_) gradient.Fill(step_);
  }

  // Takes the step, and returns whether it is right.
  bool IsRight() {
    const CpuStep step = ForCpu();
    return WriteTheSame([&] { ApplyOnCpu(step, kMakersOf<Description>); });
  }

  // Returns whether only the report is written where an entry of the i-th table
  // has this row; of a refused one there is none.
  bool Refuses(int i, int64_t entry, int64_t row) {
    gradients_[i].SetRow(entry, row);
    const bool refused = WriteTheSame([&] {
      if (row == -INT32_MAX) return;
      SetReport(tables_[i], i, entry, row, report_);
    });
    *report_ = {};
    gradients_[i].Fill(step_);
    return refused;
  }

  // Returns whether nothing is written where a number on the device is out of
  // its range, or a layer isn't there.
  bool RefusesWrongNumbers() {
    bool right = true;
    const auto refuse = [&](const auto& inputs, auto* numbers) {
      const auto valid = *numbers;
      for (const auto& input : inputs) {
        if (input.range == Range::kAny) continue;
        const double number = -1;
        const int64_t integer = -1;
        input.integer != nullptr ? input.Read(&integer, numbers)
                                 : input.Read(&number, numbers);
        right = WriteTheSame([] {}) && right;
        *numbers = valid;
      }
    };
    refuse(Description::kScalars, hyperparameters_);
    refuse(kFrameScalars, frame_);
    for (const int64_t layer : {int64_t{-1}, kLayers}) {
      *layer_ = layer;
      right = (layer_input_ == nullptr || WriteTheSame([] {})) && right;
    }
    return right;
  }

  E TypeOf(int operand) const { return TypeOf(operands_[operand]); }

  // The step for the engines.
  CpuStep ForCpu() {
    auto step = Common<CpuStep>();
    for (const auto& input : Description::kScalars) {
      step.values.scalars.push_back(
          ReadScalar(input.type, input.Address(*hyperparameters_)));
    }
    step.sparse = how_.form != Form::kDense;
    step.lazy = lazy_;
    for (int i = 0; i < count_; ++i) {
      step.variables.push_back(vectors_[i]);
      if (step.sparse) step.slices.push_back(gradients_[i].ForCpu<void>());
      for (std::size_t k = 0; k < operands_.size(); ++k) {
        StepArray& array = step.arrays.arrays[k * count_ + i];
        if (!operands_[k].is_stacked() || array.data == nullptr) continue;
        array.data = static_cast<char*>(array.data) +
                     *layer_ * tables_[i].size() * SizeOf(TypeOf(operands_[k]));
      }
      // While gradients are accumulated, rows go on waiting.
      if (how_.form != Form::kWaiting || (how_.framed && !frame_->update)) {
        continue;
      }
      step.waiting.emplace_back(
          static_cast<float*>(arrays_.Slot(slots_, i)), tables_[i].rows,
          static_cast<MissedSteps*>(arrays_.Slot(slots_ + 1, i)), kCapacity);
    }
    return step;
  }
  GpuStep ForGpu() const {
    auto step = Common<GpuStep>();
    for (const auto& input : Description::kScalars) {
      step.scalars.push_back(input.Address(*hyperparameters_));
    }
    // The host doesn't know these.
    const int64_t zero = 0;
    for (const auto& input : kFrameScalars) {
      step.frame_scalars.push_back(input.Address(*frame_));
      input.Read(&zero, &step.frame);
    }
    const bool waits = how_.form == Form::kWaiting;
    step.variables = vectors_;
    step.has_accumulators = how_.framed;
    if (layer_input_ != nullptr) {
      step.layer = GpuLayer(layer_input_, kLayers, layer_);
    }
    step.rows = {how_.form != Form::kDense, lazy_, waits, report_};
    for (const Gradient& gradient : gradients_) {
      step.slices.push_back(gradient.ForGpu(kCapacity));
    }
    return step;
  }

 private:
  using Hyperparameters = typename Description::Hyperparameters;
  static constexpr int64_t kLayers = 3;    // Of a stacked slot.
  static constexpr int64_t kCapacity = 2;  // Missed steps.

  E TypeOf(const Operand& operand) const {
    const E arithmetic = how_.element == E::kDouble ? E::kDouble : E::kFloat;
    const E states[] = {arithmetic, E::kFloat, E::kBFloat16};
    const E types[] = {how_.element, arithmetic,
                       states[static_cast<int>(how_.stored.state)], E::kFloat,
                       E::kDouble};
    return types[static_cast<int>(operand.storage)];
  }

  // Adds an operand's arrays. Most master weights round to their variables;
  // some rows wait for what there isn't.
  void AddArrays(const Operand& operand) {
    const int k = operands_.size();
    const Storage storage = operand.storage;
    const bool exists =
        k == kGradient ? how_.form == Form::kDense
        : k == kMasterWeight
            ? how_.stored.master_weights
            : how_.framed || (k != kAccumulator && k != kAverage);
    for (const Table& table : tables_) {
      const int64_t count = !exists ? 0
                            : storage == Storage::kCoasting
                                ? kCapacity * MissedSteps::kColumns
                            : operand.by_row       ? table.rows
                            : operand.is_stacked() ? kLayers * table.size()
                                                   : table.size();
      const E type = TypeOf(operand);
      void* const array =
          memory.New<char>(count, how_.bits & kMisaligned, SizeOf(type));
      arrays_.arrays.push_back({array, storage == Storage::kState
                                           ? how_.stored.state
                                           : StateType::kArithmetic});
      const bool special =
          how_.bits & kSpecial && !operand.is_of_waiting_rows();
      for (int64_t at = 0; at < count; ++at) {
        const double off = at % 8 == 0 ? 0x1p-4 : 0x1p-13;
        Put(storage == Storage::kCoasting ? 0
            : storage == Storage::kSince  ? (at % 5 == 3 ? NAN : -(at % 3))
            : k == kVariable              ? 1 + Unit(at)
            : k == kGradient              ? Unit(at) - (at % 3 == 0)
            : k == kMasterWeight          ? 1 + Unit(at) + off
                                          : 0.05 + Unit(1000 * k + at),
            type, array, at, special && Any(4) == 0);
      }
    }
    if (operand.is_stacked()) layer_input_ = operand.layer_input;
    operands_.push_back(operand);
  }

  template <typename Step>
  Step Common() const {
    Step step;
    step.arrays = arrays_;
    step.variant = how_.variant;
    step.frame = *frame_;
    for (const auto& mode : Description::kModes) {
      step.values.modes.push_back(
          ReadScalar(mode.type, mode.Address(*hyperparameters_)));
    }
    return step;
  }

  template <typename OnHost>
  bool WriteTheSame(const OnHost& on_host) {
    const GpuStep step = ForGpu();
    return memory.WriteTheSame(on_host, [&](const GpuQueue& queue) {
      return ApplyOnGpu<Description>(step, queue);
    });
  }

  const Tables tables_;
  const int count_;
  const How how_;
  // In the device's memory.
  BadRow* report_;
  int64_t* layer_;
  Hyperparameters* hyperparameters_;
  FrameInputs* frame_;
  VariableVectors vectors_;
  const char* layer_input_ = nullptr;  // Of a stacked slot.
  std::vector<Gradient> gradients_;
  std::vector<Operand> operands_;
  int slots_;
  StepArrays arrays_;
  int step_ = 0;
  bool lazy_ = false;
};

// For tensors: around what a thread or a block takes.
const Tables kSizes = {{0, 1},    {1, 1},         {3, 1},
                       {17, 1},   {kTileSize, 1}, {0, 1},
                       {4097, 1}, {16, 1},        {kTileSize + 5, 1}};
// More tensors than a launch can describe, then one of many blocks.
const Tables kHundreds = [] {
  static_assert(GpuBatch<DenseTensor<float>>::kCapacity < 700);
  Tables tables;
  for (int i = 0; i < 2000; ++i) tables.push_back({i % 37, 1});
  tables.push_back({8 * kTileSize + 1, 1});
  return tables;
}();
// Different widths and ids; some are empty.
const Tables kMixed = {{0, 3},
                       {40, 64, Ids::kZipf, 70, 5},
                       {40, 0, Ids::kZipf, 10},
                       {1, 4, Ids::kOne, 3},
                       {30, 3, Ids::kDifferent, 20, 9},
                       {9, 1, Ids::kAscending, 20},
                       {5, 64},
                       {7, 1000, Ids::kOne, 9},
                       {3, 4097, Ids::kZipf, 5}};
// Many entries of a row, around how many are summed by whom.
const Tables kLong = {{9, 64, Ids::kOne, 1500, 40},  {9, 20, Ids::kOne, 33},
                      {5, 64, Ids::kOne, 32},        {5, 3, Ids::kOne, 449},
                      {5000, 1, Ids::kZipf, 1500},   {8, 65, Ids::kOne, 448},
                      {6, 132, Ids::kAscending, 500}};
// Four batches, one without entries.
const Tables kMany = [] {
  Tables tables;
  for (int i = 0; i < 100; ++i) {
    const int some = i / 32 != 1;
    tables.push_back(
        {1 + i % 5, 1 + i % 7, Ids::kZipf, some * (i % 4), some * (i % 3)});
  }
  return tables;
}();
const Tables kFew = {{12, 3, Ids::kZipf, 20, 2},
                     {9, 64, Ids::kZipf, 12},
                     {5, 1, Ids::kOne, 3},
                     {3, 4}};

template <typename Description>
bool StepsAreRight(const Tables& tables, const How& how) {
  Steps<Description> steps(tables, how);
  std::vector<FrameInputs> frames = AllFrames();
  frames.emplace_back();  // It leaves the gradient as it is.
  const bool waits = how.form == Form::kWaiting;
  // Updates; or two steps that accumulate, and two updates.
  std::vector<int> order = {0, 1, 4};
  if (how.framed) order = {2, 3, 0, 1};
  // A step without an update is a lookup, or accumulates. After two updates
  // there is no more room, and with lazy = false, too, all rows catch up.
  if (waits) order = {0, 2, 1, 2, 3, 0, 1, 0, 2, 1, 3, 0};
  bool right = true;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const bool is_lazy = k < 8 || order[k] == 1;
    steps.Set(frames[order[k]], waits ? is_lazy : how.form == Form::kLazy);
    right = steps.IsRight() && right;
  }
  return right;
}

template <typename Description>
void ReportSteps(const How& how, const char* what, bool right) {
  constexpr const char* kForms[] = {"dense", "exact", "lazy", "waiting"};
  Report(std::string(Description::kOp) + ", variant " +
             std::to_string(how.variant) + ", type " +
             std::to_string(static_cast<int>(how.element)) + ", " +
             kForms[static_cast<int>(how.form)] + what,
         right);
}

// All variants of a rule, in all forms, stored in all ways; tables, modes and
// the bits of arrays and gradients at random.
template <typename Description, typename T>
void CheckRule(E element) {
  for (int variant = 0; variant < kVariants<Description>; ++variant) {
    WithRule<Description, ComputeType<T>>(variant, [&](auto tag) {
      using Rule = typename decltype(tag)::type;
      for (int form = 0; form < 3 + Description::kCoasts; ++form) {
        How how = {static_cast<Form>(form), element, variant};
        const bool tensors = how.form == Form::kDense && !Rule::kRowWise;
        bool right = true;
        for (const auto& [stored, framed] :
             Pairs(AllStored<T>(), std::vector<bool>{false, true})) {
          how.stored = stored;
          how.framed = framed;
          how.modes = Any(1 << std::size(Description::kModes));
          how.bits = Any(16);
          const Tables* const tables[] = {&kFew, &kFew,   &kFew,  &kFew,
                                          &kFew, &kMixed, &kLong, &kMany};
          if (brief && Any(16) != 0) continue;
          right = StepsAreRight<Description>(tensors ? kSizes : *tables[Any(8)],
                                             how) &&
                  right;
        }
        ReportSteps<Description>(how, "", right);
      }
    });
  }
}

// Many tensors, then a wrong number.
template <typename Description>
void CheckDense(E element) {
  const How how = {Form::kDense, element};
  ReportSteps<Description>(how, ", 2,001 tensors",
                           StepsAreRight<Description>(kHundreds, how));
  Steps<Description> steps(kFew, how);
  steps.Set(AllFrames()[0], /*lazy=*/false);
  ReportSteps<Description>(how, ", wrong numbers", steps.RefusesWrongNumbers());
}

// A wrong row at every place, then a wrong number.
template <typename Description>
void CheckWrongRows() {
  How how = {Description::kCoasts ? Form::kWaiting : Form::kExact, E::kFloat};
  how.variant = kVariants<Description> - 1;
  Steps<Description> steps(kMany, how);
  steps.Set(AllFrames()[0], /*lazy=*/Description::kCoasts);
  bool right = true;
  for (int i = 0; i < static_cast<int>(kMany.size()); ++i) {
    for (int64_t k = 0; k < kMany[i].entries(); ++k) {
      right = steps.Refuses(i, k, k % 2 == 0 ? kMany[i].rows : -1) && right;
    }
  }
  right = steps.Refuses(1, 0, -INT32_MAX) && right;
  right = steps.IsRight() && right;
  ReportSteps<Description>(how, ", wrong rows and numbers",
                           steps.RefusesWrongNumbers() && right);
}

// Measures gradients; the CPU's are without the unused rows.
template <typename T>
bool MeasuresRight(const std::vector<MeasuredTensor<T>>& tensors,
                   const std::vector<MeasuredTensor<T>>& on_cpu,
                   bool is_enabled = true) {
  auto* const scale = memory.New<double>(1);
  auto* const enabled = memory.New<bool>(1);
  auto* const squares = memory.New<double>(tensors.size());
  auto* const finite = memory.New<bool>(tensors.size());
  *scale = 0.3;
  *enabled = is_enabled;
  const auto on_host = [&] {
    const auto found =
        MeasureGradients<T>(on_cpu, *scale, ChosenCpuTarget(), {});
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      squares[i] = is_enabled ? found[i].sum_of_squares : 0;
      finite[i] = !is_enabled || found[i].finite;
    }
  };
  return memory.WriteTheSame(on_host, [&](const GpuQueue& queue) {
    return MeasureGradientsGpu<T>(tensors, {scale, enabled, squares, finite},
                                  queue);
  });
}

// Measures tensors, with accumulators or without.
template <typename T>
void CheckMeasures(E element) {
  std::vector<int64_t> many(3000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i % 37;
  bool right = true;
  for (const auto& sizes : {MeasuredSizes(), many}) {
    for (int bits = 0; bits < 16; ++bits) {
      const bool misaligned = bits & kMisaligned, special = bits & kSpecial,
                 accumulated = bits & 4, enabled = !(bits & 8);
      memory.Clear();
      std::vector<MeasuredTensor<T>> tensors;
      for (const int64_t size : sizes) {
        auto* const gradient = memory.New<T>(size, misaligned);
        auto* const accumulator =
            memory.New<ComputeType<T>>(accumulated ? size : 0, misaligned);
        tensors.push_back({gradient, accumulator, size});
        for (int64_t at = 0; at < size; ++at) {
          Put(1 + Unit(at), element, gradient, at, special && Any(4) == 0);
          if (accumulator == nullptr) continue;
          Put(Unit(at), element == E::kDouble ? E::kDouble : E::kFloat,
              accumulator, at, special && Any(4) == 0);
        }
      }
      right = MeasuresRight<T>(tensors, tensors, enabled) && right;
    }
  }
  Report("measures, type " + std::to_string(static_cast<int>(element)), right);
}

// Merges gradients, and measures the merged ones beside accumulated ones.
template <typename T>
bool MergesRight(const Tables& tables, E element, unsigned bits) {
  memory.Clear();
  std::vector<Gradient> gradients;
  std::vector<GpuSlices> slices;
  std::vector<MeasuredTensor<T>> measured, on_cpu;
  for (const Table& table : tables) {
    const Gradient& gradient = gradients.emplace_back(table, element, bits);
    gradients.back().Fill(1);
    slices.push_back(gradient.ForGpu());
    void* const ids = gradient.NewIds(table.entries());
    T* const sums = memory.New<T>(table.entries() * table.width);
    slices.back().merged_ids = ids;
    slices.back().merged_values = sums;
    auto* const accumulator = memory.New<ComputeType<T>>(table.size());
    for (int64_t k = 0; k < table.size(); ++k) accumulator[k] = Unit(k);
    measured.push_back(
        {sums,
         accumulator,
         table.size(),
         {static_cast<int64_t*>(ids), table.entries(), table.width}});
  }
  auto* const report = memory.New<BadRow>(1);
  *report = {};

  // The rows and their sums, and then nothing; refused rows, if one is wrong.
  on_cpu = measured;
  const auto write = [&](bool found) {
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const auto gradient = gradients[i].template ForCpu<T>();
      const auto firsts =
          found ? FirstEntries(gradient) : std::vector<int64_t>();
      const int64_t count = firsts.size(), width = tables[i].width;
      auto* const sums = static_cast<T*>(slices[i].merged_values);
      for (int64_t k = 0; k < tables[i].entries(); ++k) {
        gradients[i].Write(k < count ? gradient.entries.row(firsts[k])
                           : found   ? gradients[i].unused
                                     : -gradients[i].unused - 1,
                           slices[i].merged_ids, k);
      }
      std::fill(sums + count * width, sums + tables[i].entries() * width, T());
      SumRows<T>({{gradient, firsts, sums}}, ChosenCpuTarget(), {});
      on_cpu[i].rows.count = count;
    }
  };
  const auto merge = [&](const GpuQueue& queue) {
    return MergeSlicesGpu<T>(slices, report, queue);
  };
  bool right = memory.WriteTheSame([&] { write(true); }, merge);
  if (bits & kWideIds) right = MeasuresRight<T>(measured, on_cpu) && right;

  gradients[1].SetRow(0, -5);
  const auto refuse = [&] {
    SetReport(tables[1], 1, 0, -5, report);
    gradients[1].rows[0] = gradients[1].unused;
    write(false);
  };
  return memory.WriteTheSame(refuse, merge) && right;
}

// More elements than 32 bits can count, in a tensor, or in a table and in its
// gradient. The CPU has only some of the rows, which lie far apart there.
template <typename Description>
void CheckLarge(const How& how) {
  constexpr int64_t kWidth = 4096, kRows = 64, kEntries = 70;
  constexpr int64_t kCount = (1 << 19) + kEntries;
  const bool sparse = how.form != Form::kDense;
  const int64_t row_count = sparse ? 1 << 21 : (1 << 19) + 1;
  const auto far = [&](int64_t row) {
    return row * (row_count - 1) / (kRows - 1);
  };
  const Table table = {kRows, kWidth, Ids::kAscending, sparse ? kEntries : 0};
  Steps<Description> steps({table}, how);
  steps.Set(AllFrames()[0], sparse);
  const CpuStep on_cpu = steps.ForCpu();
  GpuStep on_gpu = steps.ForGpu();
  on_gpu.arrays.sizes[0] = row_count * kWidth;

  struct Row {
    char* large;
    const char* small;
    int64_t bytes;
  };
  std::vector<Row> rows;
  std::vector<DeviceMemory> large;
  // Returns an array of so many rows, one for each row of the small array.
  const auto enlarge = [&](const void* small, int64_t small_count, E type,
                           int64_t count, const auto& place) {
    const int64_t bytes = kWidth * SizeOf(type);
    large.push_back(AllocateOnDevice(count * bytes));
    for (int64_t row = 0; row < small_count; ++row) {
      rows.push_back(
          {static_cast<char*>(large.back().get()) + place(row) * bytes,
           static_cast<const char*>(small) + row * bytes, bytes});
    }
    return large.back().get();
  };
  for (std::size_t k = 0; k < on_gpu.arrays.arrays.size(); ++k) {
    void*& array = on_gpu.arrays.arrays[k].data;
    if (array == nullptr) continue;
    array = enlarge(array, kRows, steps.TypeOf(k), row_count, far);
  }
  if (sparse) {
    // Behind many entries of no row.
    const auto last = [](int64_t k) { return kCount - kEntries + k; };
    auto* const ids = memory.New<int64_t>(kCount);
    std::fill_n(ids, kCount, INT64_MAX - 1);
    for (int64_t k = 0; k < kEntries; ++k)
      ids[last(k)] = far(RowOf(table, k, 1));
    on_gpu.slices[0].values =
        enlarge(on_cpu.slices[0].values, kEntries, how.element, kCount, last);
    on_gpu.slices[0].ids = ids;
    on_gpu.slices[0].count = kCount;
    on_gpu.slices[0].rows = row_count;
  }
  const auto allocate = [&](std::size_t bytes) {
    large.push_back(AllocateOnDevice(bytes));
    if (std::count(large.begin(), large.end(), nullptr) > 0) {
      throw std::bad_alloc();
    }
    for (const Row& row : rows) CopyToDevice(row.large, row.small, row.bytes);
    return large.back().get();
  };
  try {
    Require(ApplyOnGpu<Description>(on_gpu, {nullptr, allocate}));
  } catch (const std::bad_alloc&) {
    std::puts("-      more than 2^31 elements: skipped, too little memory");
    return;
  }
  WaitForDevice();
  ApplyOnCpu(on_cpu, kMakersOf<Description>);
  bool right = true;
  for (const Row& row : rows) {
    std::string found(row.bytes, 0);
    CopyFromDevice(found.data(), row.large, row.bytes);
    right = right && found == std::string(row.small, row.bytes);
  }
  ReportSteps<Description>(how, ", more than 2^31 elements", right);
}

void CheckAll() {
  const auto for_types = [](const auto& use) {
    use(Half(), E::kHalf);
    use(BFloat16(), E::kBFloat16);
    use(float(), E::kFloat);
    use(double(), E::kDouble);
  };
  ForEachRule([&](auto rule) {
    using Description = typename decltype(rule)::type;
    for_types([&](auto zero, E type) {
      CheckRule<Description, decltype(zero)>(type);
      CheckDense<Description>(type);
    });
    CheckWrongRows<Description>();
    const bool is_sgd = std::strcmp(Description::kOp, "SGD") == 0;
    if (is_sgd && !brief) {
      CheckLarge<Description>({Form::kLazy, E::kBFloat16, 0, 0, kWideIds});
    }
  });
  for_types([&](auto zero, E type) {
    using T = decltype(zero);
    bool right = true;
    for (unsigned bits = brief ? 13 : 0; bits < 16; ++bits) {
      for (const Tables& tables : {kMixed, kLong, kMany}) {
        right = MergesRight<T>(tables, type, bits) && right;
      }
    }
    Report(
        "merges and measures, type " + std::to_string(static_cast<int>(type)),
        right);
    CheckMeasures<T>(type);
    // Where an element lies is no matter of the rule, so one rule will do.
    if (!quick) CheckLarge<Adam>({Form::kDense, type});
  });
}

}  // namespace
}  // namespace tf_opt

int main(int argc, char** argv) {
  using namespace tf_opt;
  const std::string option = argc > 1 ? argv[1] : "";
  brief = option == "--brief";
  quick = brief || option == "--quick";
  if (argc > 1 + quick) {
    std::fputs("usage: correctness [--quick | --brief]\n", stderr);
    return 2;
  }
  if (DeviceName().empty()) {
    std::puts("No GPU was found: nothing was checked.");
    return 77;  // What test runners take for skipped.
  }
  std::printf("On: %s\n", DeviceName().c_str());
  CheckAll();
  std::printf("%d failed\n", failures);
  return failures != 0;
}
