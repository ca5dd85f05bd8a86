/* The C interface from C: a plan for a GPU, or why there is none, and products on host memory. */
#include <gemm/gemm.h>
#include <stdio.h>
#include <string.h>

/* Two ranks gather 32 rows of ones, and multiply them by 1 and by 2. */
static gemm_status gather(void) {
  const int devices[2] = {GEMM_SIMULATOR, GEMM_SIMULATOR};
  const uint16_t factors[2] = {0x3c00, 0x4000}; /* in float16 */
  uint16_t a[2][16], c[2][32];
  gemm_sharded_problem problem = GEMM_SHARDED_PROBLEM_DEFAULT;
  gemm_sharded_operands operands[2] = {GEMM_SHARDED_OPERANDS_DEFAULT,
                                       GEMM_SHARDED_OPERANDS_DEFAULT};
  gemm_sharded* sharded = NULL;
  gemm_status status;
  int rank, row;
  problem.m = 32;
  problem.n = problem.k = 1;
  for (rank = 0; rank < 2; ++rank) {
    for (row = 0; row < 16; ++row) a[rank][row] = factors[0];
    operands[rank].a = a[rank];
    operands[rank].b = &factors[rank];
    operands[rank].c = c[rank];
  }
  status = gemm_sharded_create(&problem, devices, NULL, &sharded);
  if (status == GEMM_OK) status = gemm_sharded_run(sharded, operands);
  if (status == GEMM_OK) printf("%x %x\n", (unsigned)c[0][31], (unsigned)c[1][0]);
  if (status == GEMM_OK) status = gemm_sharded_destroy(sharded);
  return status;
}

int main(void) {
  const float a[2][3] = {{1, 2, 3}, {4, 5, 6}}, b[3] = {1, 0, 2};
  float c[2] = {10, 20};
  gemm_problem problem = GEMM_PROBLEM_DEFAULT;
  gemm_epilogue epilogue = GEMM_EPILOGUE_DEFAULT;
  gemm_plan plan;
  char text[100];
  gemm_status status;
  problem.m = 2;
  problem.n = 1;
  problem.k = 3;
  epilogue.beta = 1;
  if (strcmp(gemm_backend(), "simulator") != 0) {
    status = gemm_plan_create(&problem, 0, &plan);
    printf("%s\n", status == GEMM_OK ? "planned" : gemm_last_error());
    if (status != GEMM_OK && status != GEMM_NO_DEVICE) return 1;
  }
  status = gemm_matmul(&problem, &epilogue, a, b, c, NULL, GEMM_SIMULATOR);
  if (status == GEMM_OK) status = gemm_plan_create(&problem, GEMM_SIMULATOR, &plan);
  if (status == GEMM_OK) status = gemm_plan_explain(&plan, text, sizeof text);
  if (status == GEMM_OK) status = gather();
  if (status != GEMM_OK) {
    fprintf(stderr, "%s: %s\n", gemm_status_string(status), gemm_last_error());
    return 1;
  }
  printf("%g %g\n", c[0], c[1]);
  return c[0] == 17 && c[1] == 36 ? 0 : 1;
}
