// A build without kernels for XLA.
#include "tf_opt/cc/kernels/not_for_xla.h"

namespace tf_opt {
namespace {

struct NotForXlaRegistration {
  NotForXlaRegistration() {
    for (const char* device : {"XLA_CPU_JIT", "XLA_GPU_JIT"}) {
      for (const bool sparse : {false, true}) RegisterNotForXla(device, sparse);
    }
  }
};

const NotForXlaRegistration registration;

}  // namespace
}  // namespace tf_opt
