// Arrays in one piece of a device's memory, with poison between them that
// nothing may touch, and their copy on the host.
#ifndef TF_OPT_TESTS_GPU_ARENA_H_
#define TF_OPT_TESTS_GPU_ARENA_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tests/gpu/device.h"

namespace tf_opt {

class Arena {
 public:
  // Reserves an array and returns its handle. It begins at a multiple of 16
  // bytes, or `misalignment` and `before` behind one; what lies `before` and
  // `after` it is padding.
  std::size_t Add(std::size_t bytes, std::size_t misalignment = 0,
                  std::size_t before = 0, std::size_t after = 0) {
    const std::size_t begin =
        (size_ + kPadding + 15) / 16 * 16 + misalignment + before;
    arrays_.push_back({begin, bytes});
    size_ = begin + bytes + after;
    return begin;
  }

  // After the last Add. Everything is poison.
  void Allocate() {
    host_.assign(size_ + kPadding, kPoison);
    device_ = AllocateOnDevice(host_.size());
    if (device_ == nullptr) Require("too little memory");
  }

  template <typename E>
  E* OnHost(std::size_t array) {
    return reinterpret_cast<E*>(host_.data() + array);
  }
  template <typename E>
  E* OnDevice(std::size_t array) {
    return reinterpret_cast<E*>(static_cast<unsigned char*>(device_.get()) +
                                array);
  }

  void Upload() { CopyToDevice(device_.get(), host_.data(), host_.size()); }
  void Download() { CopyFromDevice(host_.data(), device_.get(), host_.size()); }

  bool PaddingIsUntouched() const {
    std::size_t end = 0;
    for (const Array& array : arrays_) {
      if (!IsPoison(end, array.begin)) return false;
      end = array.begin + array.bytes;
    }
    return IsPoison(end, host_.size());
  }

 private:
  struct Array {
    std::size_t begin, bytes;
  };
  static constexpr std::size_t kPadding = 64;
  static constexpr unsigned char kPoison = 0xa5;

  bool IsPoison(std::size_t begin, std::size_t end) const {
    return std::all_of(host_.begin() + begin, host_.begin() + end,
                       [](unsigned char byte) { return byte == kPoison; });
  }

  std::size_t size_ = 0;
  std::vector<Array> arrays_;
  std::vector<unsigned char> host_;
  DeviceMemory device_;
};

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_ARENA_H_
