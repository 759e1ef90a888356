// The device that a file's kernels are registered for: the CPU or, where
// TF_OPT_GPU_DEVICE names it, that of the kernels for GPUs. (Tests name "CPU",
// and the engine for GPUs is emulated.)
#ifndef TF_OPT_CC_KERNELS_KERNEL_DEVICE_H_
#define TF_OPT_CC_KERNELS_KERNEL_DEVICE_H_

namespace tf_opt {

#if defined(TF_OPT_GPU_DEVICE)
constexpr char kKernelDevice[] = TF_OPT_GPU_DEVICE;
#else
constexpr char kKernelDevice[] = "CPU";
#endif

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_KERNEL_DEVICE_H_
