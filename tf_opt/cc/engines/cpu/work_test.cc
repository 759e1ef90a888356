// Work of other sizes than that with which tests/gpu/correctness.cc compares
// the engines.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/tiles.h"

namespace tf_opt {
namespace {

TEST(ForRanges, RunsSmallWorkInline) {
  int64_t elements = 0;
  ForRanges({100, 0, 7}, /*bytes_per_element=*/4, CpuThreads{/*count=*/8},
            [&](int, int64_t begin, int64_t end) { elements += end - begin; });
  EXPECT_EQ(elements, 107);
}

TEST(TileList, OfMoreElementsThan32BitsCount) {
  constexpr int64_t kSize = (int64_t{1} << 45) + 1;
  const TileList tiles({3, kSize});
  EXPECT_EQ(tiles.size(), 1 + kSize / kTileSize + 1);
  EXPECT_EQ(tiles.tensor(tiles.size() - 1), 1);
}

template <typename Index>
void CheckSort(Index rows) {
  using Entry = RowEntry<Index>;
  std::mt19937_64 random(5);
  for (const int count : {0, 1, 2, 5000}) {
    std::vector<Entry> entries;
    for (int i = 0; i < count; ++i) {
      // Rows that occur again, the last one among them.
      const Index row = rows - 1 - random() % 700 * (rows / 1000);
      entries.push_back({row % rows, i});
    }
    auto expected = entries;
    std::stable_sort(
        expected.begin(), expected.end(),
        [](const Entry& a, const Entry& b) { return a.row < b.row; });
    std::vector<Entry> room(count);
    const Entry* const sorted =
        SortByRow<Index>(rows, count, entries.data(), room.data());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), sorted,
                           [](const Entry& a, const Entry& b) {
                             return a.row == b.row && a.position == b.position;
                           }))
        << rows << " rows, " << count << " entries";
  }
}

TEST(SortByRow, IsAStableSort) {
  for (const int32_t rows : {1, 2, 100, 2048, 2049, 1 << 22, INT32_MAX}) {
    CheckSort<int32_t>(rows);
    CheckSort<int64_t>(rows);
  }
  CheckSort<int64_t>(int64_t{1} << 40);
  CheckSort<int64_t>(INT64_MAX);
}

}  // namespace
}  // namespace tf_opt
