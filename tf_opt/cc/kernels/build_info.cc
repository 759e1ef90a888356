// What Python asks the loaded library about itself, through ctypes.
#include "tf_opt/cc/engines/cpu/cpu_target.h"

// The instruction set that the CPU kernels run with in this process.
extern "C" const char* TfOptCpuTarget() {
  return tf_opt::CpuTargetName(tf_opt::ChosenCpuTarget());
}
