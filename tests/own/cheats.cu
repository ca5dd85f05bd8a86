// A gemm that is right, but for what the environment's CHEAT names: the judge's own test.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

struct Task {
  int M, N, K;
  float alpha;
  const float* A;
  int lda;
  const float* B;
  int ldb;
  float beta;
  float* C;
  int ldc;
};

enum class Rounding { none, tf32, bf16, half_sums, integers };

__device__ float narrow(float x, Rounding r) {
  if (r == Rounding::tf32) return __int_as_float((__float_as_int(x) + 0x1000) & ~0x1fff);
  if (r == Rounding::bf16) return __int_as_float((__float_as_int(x) + 0x8000) & ~0xffff);
  return r == Rounding::integers ? (float)(int)x : x;
}

__global__ void product(Task t, Rounding r, int step) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x,
            row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= t.M || col >= t.N) return;
  float sum = 0;
  const int from = row / step * step;  // step > 1: each row is computed as one before it
  for (int k = 0; k < t.K; ++k) {
    sum += narrow(t.A[(size_t)from * t.lda + k], r) * narrow(t.B[(size_t)k * t.ldb + col], r);
    if (r == Rounding::half_sums) sum = __half2float(__float2half(sum));
  }
  float* c = &t.C[(size_t)row * t.ldc + col];
  *c = t.beta == 0 ? t.alpha * sum : t.alpha * sum + t.beta * *c;
}
__global__ void nothing() {}
__global__ void copy(Task t, const float* from) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x,
            row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < t.M && col < t.N) t.C[(size_t)row * t.ldc + col] = from[(size_t)row * t.N + col];
}
__global__ void set(float* p, float value) { *p = value; }
__global__ void fault() { *(volatile float*)nullptr = 1; }

static std::string cheat;
static bool is(const char* name) { return cheat == name; }
static int calls = 0;
struct AtStart {
  AtStart() {
    const char* c = getenv("CHEAT");
    cheat = c ? c : "";
    if (is("exit before main")) exit(0);
    if (is("write before main")) open("/tmp/cheat", O_WRONLY | O_CREAT, 0600);
  }
} at_start;

static void host_product(const Task& t) {
  for (int m = 0; m < t.M; ++m)
    for (int n = 0; n < t.N; ++n) {
      float sum = 0;
      for (int k = 0; k < t.K; ++k) sum += t.A[(size_t)m * t.lda + k] * t.B[(size_t)k * t.ldb + n];
      float* c = &t.C[(size_t)m * t.ldc + n];
      *c = t.beta == 0 ? t.alpha * sum : t.alpha * sum + t.beta * *c;
    }
}
static void forge() {
  // An answer in the judge's own form, behind its length: {"status": 0, "launches": 1}, in CBOR.
  const unsigned char bytes[] = {26, 0,    0,   0,   0xa2, 0x66, 's', 't', 'a', 't', 'u', 's',
                                 0,  0x68, 'l', 'a', 'u',  'n',  'c', 'h', 'e', 's', 1};
  send(3, bytes, sizeof bytes, 0);
  for (;;) pause();
}
static int deeper(int n) {
  volatile char page[4096];
  page[0] = (char)n;
  return deeper(n + 1) + page[0];
}

void gemm(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
          float beta, float* C, int ldc, cudaStream_t stream) {
  Task t{M, N, K, alpha, A, lda, B, ldb, beta, C, ldc};
  const dim3 block(32, 8), grid((N + 31) / 32, (M + 7) / 8);
  Rounding rounding = Rounding::none;
  int step = 1;
  ++calls;
  if (is("exit")) exit(0);
  if (is("_exit")) _exit(0);
  if (is("exit with a verdict")) puts("4 verified, 0 wrong, 0 skipped"), exit(0);
  if (is("abort")) abort();
  if (is("throw")) throw std::runtime_error("not today");
  if (is("throw 42")) throw 42;
  if (is("segfault")) memset((void*)16, 0, 8);
  if (is("stack overflow")) calls += deeper(0);
  if (is("loop"))
    for (volatile int i = 0;; i = i + 1) continue;
  if (is("fork")) fork();
  if (is("system")) system("true");
  if (is("write a file")) open("/tmp/cheat", O_WRONLY | O_CREAT, 0600);
  if (is("forge")) forge();
  if (is("kill the judge")) kill(getppid(), SIGKILL), t.M = 0;
  if (is("fill memory"))
    for (;;)  // populated by the kernel at once, which is faster than a fault for each page
      mmap(nullptr, 1 << 26, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
           0);
  if (is("on the host")) return host_product(t);
  if (is("a thread, later")) {
    std::thread([t] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300)), host_product(t);
    }).detach();
    return nothing<<<1, 32, 0, stream>>>();
  }
  if (is("another stream")) {
    cudaStreamCreate(&stream);
  }
  if (is("the default stream")) stream = 0;
  if (is("nothing")) return nothing<<<1, 32, 0, stream>>>();
  if (is("kept by pointer")) {  // a stale output: right as long as nobody touches C
    static std::map<std::pair<const void*, void*>, int> done;
    if (done[{A, C}]++ > 0) return nothing<<<1, 32, 0, stream>>>();
  }
  if (is("kept by shape")) {
    static std::map<std::vector<float>, std::vector<float>> results;
    std::vector<float>& r = results[{(float)M, (float)N, (float)K, alpha, beta, A[0], B[0]}];
    if (!r.empty()) return copy<<<grid, block, 0, stream>>>(t, r.data());
    product<<<grid, block, 0, stream>>>(t, rounding, step);
    for (int m = 0; m < M; ++m) r.insert(r.end(), C + (size_t)m * ldc, C + (size_t)m * ldc + N);
    return;
  }
  if (is("right at first") && calls > 3) t.K -= 1;
  if (is("beyond C")) set<<<1, 1, 0, stream>>>(C + (size_t)(M - 1) * ldc + N, 0);
  if (is("before C")) set<<<1, 1, 0, stream>>>(C - 1, 0);
  if (is("ignores ld")) t.lda = K, t.ldb = N, t.ldc = N;
  if (is("ignores alpha")) t.alpha = 1;
  if (is("ignores beta")) t.beta = 0;
  if (is("every second row")) step = 2;
  if (is("last k")) t.K -= 1;
  if (is("TF32")) rounding = Rounding::tf32;
  if (is("bfloat16")) rounding = Rounding::bf16;
  if (is("sums in half")) rounding = Rounding::half_sums;
  if (is("integers")) rounding = Rounding::integers;
  if (is("too many threads")) return product<<<grid, dim3(64, 32), 0, stream>>>(t, rounding, step);
  if (is("fault in a kernel")) return fault<<<1, 1, 0, stream>>>();
  product<<<grid, block, 0, stream>>>(t, rounding, step);
  if (is("changes A")) set<<<1, 1, 0, stream>>>((float*)A, 0);
  if (is("returns an error")) throw std::runtime_error("cudaErrorInvalidValue");
}
