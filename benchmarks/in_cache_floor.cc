// The arithmetic that no step of Adam can do without: a division and a square
// root. Compiled for each instruction set.
namespace tf_opt::TF_OPT_CPU_TARGET {

void DivideByRoot(const float* __restrict v, float* __restrict m, int n) {
  for (int i = 0; i < n; ++i) m[i] = m[i] / __builtin_sqrtf(v[i]);
}

}  // namespace tf_opt::TF_OPT_CPU_TARGET
