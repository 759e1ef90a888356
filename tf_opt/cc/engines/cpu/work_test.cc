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

TEST(SortByRow, IsAStableSort) {
  const auto is_less = [](RowEntry a, RowEntry b) { return a.row < b.row; };
  std::mt19937_64 random(5);
  for (const uint32_t rows :
       {1u, 2u, 100u, 2048u, 2049u, 1u << 22, 1u << 31, UINT32_MAX}) {
    for (const uint32_t count : {0, 1, 2, 5000}) {
      std::vector<RowEntry> entries;
      for (uint32_t i = 0; i < count; ++i) {
        // Rows that occur again, the last one among them.
        const uint32_t row = rows - 1 - random() % 700 * (rows / 1000);
        entries.push_back({row % rows, i});
      }
      auto expected = entries;
      std::stable_sort(expected.begin(), expected.end(), is_less);
      std::vector<RowEntry> room(count);
      const RowEntry* const sorted =
          SortByRow(rows, count, entries.data(), room.data());
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), sorted,
                             [](RowEntry a, RowEntry b) {
                               return a.row == b.row &&
                                      a.position == b.position;
                             }))
          << rows << " rows, " << count << " entries";
    }
  }
}

}  // namespace
}  // namespace tf_opt
