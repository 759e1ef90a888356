// The table of tiles: every element once, never two tensors in one.
#include "tf_opt/cc/engines/tiles.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

TEST(TileTable, HasEveryElementOnceInOrder) {
  // Empty tensors first, in a row, in between and last.
  const std::vector<int64_t> sizes = {
      0, 1, kTileSize - 1, 0, 0, kTileSize, kTileSize + 1, 17, 3 * kTileSize,
      0};
  const TileTable table(sizes);
  int64_t k = 0;
  for (int tensor = 0; tensor < static_cast<int>(sizes.size()); ++tensor) {
    EXPECT_EQ(table.begin(tensor), k);
    for (int64_t begin = 0; begin < sizes[tensor]; begin += kTileSize, ++k) {
      const Tile tile = table[k];
      EXPECT_EQ(tile.tensor, tensor) << "tile " << k;
      EXPECT_EQ(tile.begin, begin) << "tile " << k;
      EXPECT_EQ(tile.size, std::min(kTileSize, sizes[tensor] - begin))
          << "tile " << k;
    }
    EXPECT_EQ(table.end(tensor), k);
  }
  EXPECT_EQ(table.size(), k);
}

TEST(TileTable, OfNothingIsEmpty) {
  EXPECT_EQ(TileTable({}).size(), 0);
  EXPECT_EQ(TileTable({0, 0}).size(), 0);
}

TEST(TileTable, OfMoreElementsThan32BitsCount) {
  constexpr int64_t kSize = (int64_t{1} << 45) + 1;
  const TileTable table({3, kSize});
  EXPECT_EQ(table.size(), 1 + kSize / kTileSize + 1);
  const Tile last = table[table.size() - 1];
  EXPECT_EQ(last.tensor, 1);
  EXPECT_EQ(last.begin, kSize - 1);
  EXPECT_EQ(last.size, 1);
}

}  // namespace
}  // namespace tf_opt
