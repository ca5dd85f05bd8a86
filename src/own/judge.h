// The harness as a shared library, for a judge of functions in other languages: libgemm_judge.so.
//
// A function is called with a GEMM's arguments and a stream, and judged as a rung: the same passes, the
// same pairs against cuBLAS, the same table and JSON. It runs in the caller's process.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One product: C = op(A) * op(B), row-major, leading dimensions in elements.
struct gemm_judge_call {
  int32_t m, n, k;
  int32_t transposed_a, transposed_b;  // A is stored k x m, B n x k
  int64_t lda, ldb, ldc;
  const void* a;
  const void* b;
  void* c;
  void* stream;       // cudaStream_t; of the simulator null
  const char* dtype;  // "bf16"
};
// Returns null, or what went wrong, in a sentence that lives until the next call.
typedef const char* (*gemm_judge_function)(const gemm_judge_call* call);

// Runs gemm_bench's command line (argv[0] is not looked at), to which a kernel `name` of these types was
// added, "f32,bf16"; its --kernel names it. `contiguous`: it takes rows without gaps alone. Returns
// gemm_bench's exit status. Once for each process.
int gemm_judge(const char* name, const char* dtypes, int contiguous, gemm_judge_function function,
               int argc, const char* const* argv);
// "gpu" or "simulator": where that will run, with "--backend sim" in the simulator.
const char* gemm_judge_backend(void);

#ifdef __cplusplus
}
#endif
