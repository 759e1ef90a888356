// How the tests of engines run a loop in parallel.
#ifndef TF_OPT_CC_ENGINES_TESTING_TEST_THREADS_H_
#define TF_OPT_CC_ENGINES_TESTING_TEST_THREADS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/tiles.h"

namespace tf_opt {

// Real threads, each with pieces in turns: of the size that the engine asks
// for, or of `block_size`.
inline CpuThreads OnThreads(int count, int64_t block_size = 0) {
  return {count, [=](int64_t total, int64_t asked_size,
                     const std::function<void(int64_t, int64_t)>& body) {
            const int64_t size = block_size > 0 ? block_size : asked_size;
            std::vector<std::thread> threads;
            for (int t = 0; t < count; ++t) {
              threads.emplace_back([=] {
                for (int64_t i = t * size; i < total; i += count * size) {
                  body(i, std::min(i + size, total));
                }
              });
            }
            for (auto& thread : threads) thread.join();
          }};
}

// For what must run without threads, though there are so many.
inline CpuThreads Unused(int count) {
  return {count,
          [](int64_t, int64_t, const std::function<void(int64_t, int64_t)>&) {
            FAIL() << "this must run inline";
          }};
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_TEST_THREADS_H_
