/* The C interface from C: a plan for a GPU, or why there is none, and a product on host memory. */
#include <gemm/gemm.h>
#include <stdio.h>
#include <string.h>

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
  if (status != GEMM_OK) {
    fprintf(stderr, "%s: %s\n", gemm_status_string(status), gemm_last_error());
    return 1;
  }
  printf("%g %g\n", c[0], c[1]);
  return c[0] == 17 && c[1] == 36 ? 0 : 1;
}
