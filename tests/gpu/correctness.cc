// Steps of the engines beside each other: the CPU engine's on every instruction
// set, on threads and without, and the GPU's. Every rule, variable type and
// mode with all that may surround a rule, dense and over rows of tables. All
// bits must be the same, also those between arrays. Steps are launched, or
// replayed by a CUDA graph. Then wrong numbers and rows, merged gradients and
// measures, and more elements than 32 bits can count. Emulated, the order of
// the threads changes from launch to launch.
//
//   correctness [--brief | --quick | --all]
//
// --quick leaves out the tensors that take a machine without a GPU too long,
// --brief most of the steps, too, for sanitizers. --all leaves out the same
// tensors as --quick, but has each combination of modes and tables, not some of
// them at random. run.sh builds and runs it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "tests/gpu/device.h"
#include "tests/gpu/gradient_checks.h"
#include "tests/gpu/same_bytes.h"
#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/testing/step_model.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/all_rules.h"

namespace tf_opt {
namespace {

// As the options.
bool brief = false;
bool quick = false;
bool all = false;

template <typename Description>
const RuleMakers kMakersOf = {&MakeRules<Description, float>,
                              &MakeRules<Description, double>};

// As WriteTheSame, with a step on the device.
template <typename Description, typename OnHost>
bool StepWritesTheSame(const StepModel<Description>& steps,
                       const OnHost& on_host) {
  const GpuStep step = steps.ForGpu();
  return WriteTheSame(on_host, [&](const GpuQueue& queue) {
    return ApplyOnGpu<Description>(step, queue);
  });
}

// Takes the step, and returns whether it is right.
template <typename Description>
bool IsRight(StepModel<Description>* steps) {
  CpuStep step = steps->ForCpu();
  return StepWritesTheSame(*steps, [&](const CpuWay& way) {
    step.target = way.target;
    step.threads = way.threads;
    ApplyOnCpu(step, kMakersOf<Description>);
  });
}

// Returns whether only the report is written where an entry of the i-th table
// has this row; of a refused one there is none.
template <typename Description>
bool Refuses(StepModel<Description>* steps, int i, int64_t entry, int64_t row) {
  RowGradient& gradient = steps->gradients[i];
  const int64_t right_row = gradient.slices.IdOf(entry);
  gradient.SetRow(entry, row);
  const bool refused = StepWritesTheSame(*steps, [&](const CpuWay&) {
    if (row == gradient.slices.refused()) return;
    *steps->report = gradient.slices.RefusalOf(i, entry);
  });
  *steps->report = {};
  gradient.SetRow(entry, right_row);
  return refused;
}

// Returns whether only the report is written where a number on the device is
// out of its range, or a layer isn't there.
template <typename Description>
bool RefusesWrongNumbers(StepModel<Description>* steps) {
  bool right = true;
  const auto refuses = [&](const Refusal& refusal) {
    const auto on_host = [&](const CpuWay&) { *steps->report = refusal; };
    right = StepWritesTheSame(*steps, on_host) && right;
    *steps->report = {};
  };
  const auto refuse = [&](const auto& inputs, Refusal::Kind kind,
                          auto* numbers) {
    const auto valid = *numbers;
    for (const auto& input : inputs) {
      if (input.range == Range::kAny) continue;
      const double number = -1;
      const int64_t integer = -1;
      input.type == ScalarType::kInt64 ? input.Read(&integer, numbers)
                                       : input.Read(&number, numbers);
      refuses({kind, static_cast<int>(&input - std::begin(inputs)), number});
      *numbers = valid;
    }
  };
  refuse(Description::kScalars, Refusal::kScalar, steps->hyperparameters);
  refuse(kFrameScalars, Refusal::kFrameScalar, steps->frame);
  for (const int64_t layer : {int64_t{-1}, steps->kLayers}) {
    *steps->layer = layer;
    if (!steps->has_layers()) continue;
    Refusal refusal;
    refusal.kind = Refusal::kLayer;
    refusal.row = layer;
    refuses(refusal);
  }
  return right;
}

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
// Different widths and ids; some are empty, one is large.
const Tables kMixed = {{0, 3},
                       {40, 64, Ids::kZipf, 70, 5},
                       {40, 0, Ids::kZipf, 10},
                       {1, 4, Ids::kOne, 3},
                       {30, 3, Ids::kDifferent, 20, 9},
                       {9, 1, Ids::kAscending, 20},
                       {5, 64},
                       {7, 1000, Ids::kOne, 9},
                       {41, 4097, Ids::kZipf, 24}};
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
// More long segments than blocks, and so many entries that CUB sorts them in
// its other way.
const Tables kSegments = {{300, 64, Ids::kAscending, 12000, 100}};
// Keys of up to 32 bits.
const Tables kFarKeys = {{UINT32_MAX - 500, 3, Ids::kAscending, 50, 4},
                         {200, 5, Ids::kZipf, 40}};
// More blocks of rows than go through all rows at once.
const Tables kAllRows = {{33000, 17, Ids::kZipf, 40, 5}};
const Tables kFew = {{12, 3, Ids::kZipf, 20, 2},
                     {9, 64, Ids::kZipf, 12},
                     {5, 1, Ids::kOne, 3},
                     {3, 4}};

template <typename Description>
bool StepsAreRight(const Tables& tables, const How& how) {
  StepModel<Description> steps(tables, how, &arena);
  const std::vector<FrameInputs> frames = AllFrames();
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
    right = IsRight(&steps) && right;
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

// All variants of a rule, in all forms, stored in all ways. The bits of arrays
// and gradients are at random, and so are tables and modes, unless `all`.
template <typename Description, typename T>
void CheckRule(E element) {
  constexpr int kModes = 1 << std::size(Description::kModes);
  for (int variant = 0; variant < kVariants<Description>; ++variant) {
    WithRule<Description, ComputeType<T>>(variant, [&](auto tag) {
      using Rule = typename decltype(tag)::type;
      for (int form = 0; form < 3 + Description::kCoasts; ++form) {
        How how = {static_cast<Form>(form), element, variant};
        std::vector<const Tables*> tables = {&kMixed, &kLong, &kMany, &kFew};
        // Those that take the least time, more often.
        if (!all) tables.resize(8, &kFew);
        if (how.form == Form::kDense && !Rule::kRowWise) tables = {&kSizes};
        bool right = true;
        const auto check = [&](const Tables* some, int modes) {
          how.modes = modes;
          how.bits = Any(16);
          right = StepsAreRight<Description>(*some, how) && right;
        };
        for (const Stored& stored : AllStored<T>()) {
          for (const bool framed : {false, true}) {
            how.stored = stored;
            how.framed = framed;
            if (brief && Any(16) != 0) continue;
            if (!all) check(tables[Any(tables.size())], Any(kModes));
            for (int modes = 0; all && modes < kModes; ++modes) {
              for (const Tables* some : tables) check(some, modes);
            }
          }
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
  StepModel<Description> steps(kFew, how, &arena);
  steps.Set(AllFrames()[0], /*lazy=*/false);
  ReportSteps<Description>(how, ", wrong numbers", RefusesWrongNumbers(&steps));
}

// A wrong row at every place, then a wrong number.
template <typename Description>
void CheckWrongRows() {
  How how = {Description::kCoasts ? Form::kWaiting : Form::kExact, E::kFloat};
  how.variant = kVariants<Description> - 1;
  StepModel<Description> steps(kMany, how, &arena);
  steps.Set(AllFrames()[0], /*lazy=*/Description::kCoasts);
  bool right = true;
  for (int i = 0; i < static_cast<int>(kMany.size()); ++i) {
    for (int64_t k = 0; k < kMany[i].entries(); ++k) {
      right = Refuses(&steps, i, k, k % 2 == 0 ? kMany[i].rows : -1) && right;
    }
  }
  right = Refuses(&steps, 1, 0, -INT32_MAX) && right;
  right = IsRight(&steps) && right;
  ReportSteps<Description>(how, ", wrong rows and numbers",
                           RefusesWrongNumbers(&steps) && right);
}

// Every row of a table catches up, by blocks that take several parts of it.
template <typename Description>
void CheckAllRows() {
  const How how = {Form::kWaiting, E::kFloat};
  ReportSteps<Description>(how, ", 33,000 rows",
                           StepsAreRight<Description>(kAllRows, how));
}

// More elements than 32 bits can count, in a tensor, or in a table and in its
// gradient. The CPU has only some of the rows, which lie far apart there.
template <typename Description>
void CheckLarge(const How& how) try {
  constexpr int64_t kWidth = 4096, kRows = 64, kEntries = 70;
  constexpr int64_t kCount = (1 << 19) + kEntries;
  const bool sparse = how.form != Form::kDense;
  const int64_t row_count = sparse ? 1 << 21 : (1 << 19) + 1;
  const auto far = [&](int64_t row) {
    return row * (row_count - 1) / (kRows - 1);
  };
  const Table table = {kRows, kWidth, Ids::kAscending, sparse ? kEntries : 0};
  StepModel<Description> steps({table}, how, &arena);
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
    large.push_back(Allocate(count * bytes));
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
    auto* const ids = arena.New<int64_t>(kCount);
    std::fill_n(ids, kCount, INT64_MAX - 1);
    for (int64_t k = 0; k < kEntries; ++k)
      ids[last(k)] = far(RowOf(table, k, 1));
    on_gpu.slices[0].values = enlarge(on_cpu.gradients[0].values, kEntries,
                                      how.element, kCount, last);
    on_gpu.slices[0].ids = ids;
    on_gpu.slices[0].count = kCount;
    on_gpu.slices[0].rows = row_count;
  }
  const auto allocate = [&](std::size_t bytes) {
    large.push_back(Allocate(bytes));
    for (const Row& row : rows) Copy(row.large, row.small, row.bytes);
    return large.back().get();
  };
  Require(ApplyOnGpu<Description>(on_gpu, {nullptr, allocate}));
  WaitForDevice();
  ApplyOnCpu(on_cpu, kMakersOf<Description>);
  bool right = true;
  for (const Row& row : rows) {
    std::string found(row.bytes, 0);
    Copy(found.data(), row.large, row.bytes);
    right = right && found == std::string(row.small, row.bytes);
  }
  ReportSteps<Description>(how, ", more than 2^31 elements", right);
} catch (const std::bad_alloc&) {
  std::puts("-      more than 2^31 elements: skipped, too little memory");
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
    if constexpr (Description::kCoasts) CheckAllRows<Description>();
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
    right = MergesRight<T>(kSegments, type, 0) && right;
    right = MergesRight<T>(kFarKeys, type, kWideIds | kUnused) && right;
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
  // Of several options the last one counts: .bazelrc adds one for sanitizers.
  const std::string option = argc > 1 ? argv[argc - 1] : "";
  brief = option == "--brief";
  all = option == "--all";
  quick = brief || all || option == "--quick";
  if (argc > 1 && !quick) {
    std::fputs("usage: correctness [--brief | --quick | --all]\n", stderr);
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
