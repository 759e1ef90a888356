// Runs the CPU engine's work on several threads.
#ifndef TF_OPT_CC_ENGINES_CPU_PARALLEL_FOR_H_
#define TF_OPT_CC_ENGINES_CPU_PARALLEL_FOR_H_

#include <cstdint>
#include <functional>

namespace tf_opt {

// Runs body(begin, end) over all of [0, total), in pieces of about
// `block_size`, perhaps on several threads.
using ParallelFor =
    std::function<void(int64_t total, int64_t block_size,
                       const std::function<void(int64_t, int64_t)>& body)>;

// Below this many bytes waking another thread costs more than it saves (an MLP
// of 350 KB took twice the time with it).
constexpr int64_t kInlineBytes = 512 * 1024;
// Small enough that one slow core delays the step little, large enough that
// distributing them costs nothing.
constexpr int64_t kLargestPieceBytes = 4 * 1024 * 1024;
constexpr int kPiecesPerThread = 8;

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_PARALLEL_FOR_H_
