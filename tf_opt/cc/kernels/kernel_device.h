// Device of a file's kernels: the CPU or, if TF_OPT_GPU_DEVICE names it, that
// of the kernels for GPUs. (Tests name "CPU" and emulate the engine for GPUs.)
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
