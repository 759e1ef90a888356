/* The dense GPU engine behind a C interface, for programs and for Python's
   ctypes. Pointers are to the memory of the device but for those marked *host*.
 */
#ifndef TF_OPT_TESTS_GPU_ENGINE_H_
#define TF_OPT_TESTS_GPU_ENGINE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One step of an optimizer over `count` tensors. */
typedef struct {
  const char* optimizer; /* host: adam, nadam, asgd or averaged_sgd */
  const char* dtype;     /* host: float16, bfloat16, float32 or float64 */
  int amsgrad;           /* adam only */
  int epsilon_hat;       /* adam only */
  int l2;                /* weight decay in the gradient, not decoupled */
  int maximize;
  int64_t count;
  const int64_t* sizes;         /* host: elements */
  void* const* variables;       /* host array */
  const void* const* gradients; /* host array */
  void* const* slots; /* host array: slot k of tensor i at k*count+i */
  /* host array: a double or int64_t for each scalar input of the op, in its
     order, without the row. */
  const void* const* scalars;
  const double* weight_decay; /* one for each tensor */
  const int64_t* row;         /* asgd only: which of the rows of slot 1 */
  int64_t rows;
  void* workspace; /* TfOptWorkspaceBytes of it */
} TfOptStep;

/* What a step needs; -1 if there is no such step. */
int64_t TfOptWorkspaceBytes(const TfOptStep* step);

/* How many kernels a step launches; -1 if there is no such step. */
int64_t TfOptLaunches(const TfOptStep* step);

/* Puts a step into a stream. Returns null, or what is wrong. */
const char* TfOptApply(const TfOptStep* step, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* TF_OPT_TESTS_GPU_ENGINE_H_ */
