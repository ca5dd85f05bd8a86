// How does shared memory serve a warp whose lanes read or write 4, 8 or 16 bytes each? One launch
// a (pattern, width, direction), of one warp, for Nsight Compute to count the wavefronts of:
//   ncu --clock-control none --csv --page raw --metrics ... build/shared_patterns
// which scripts/hardware_counters.py does. The simulator's rule (src/sim/warp_request.h) is held
// against the counts by a test. Without a profiler it only lists what it ran.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

namespace {

// Which element, of the access's own width, each lane touches.
struct Pattern {
  const char* name;
  int (*element)(int lane);
};
const Pattern PATTERNS[] = {
    {"same", [](int) { return 0; }},
    {"linear", [](int l) { return l; }},
    {"reversed", [](int l) { return 31 - l; }},
    {"pairs", [](int l) { return l / 2; }},
    {"quads", [](int l) { return l / 4; }},
    {"eights", [](int l) { return l / 8; }},
    {"halves", [](int l) { return l / 16; }},
    {"halves_apart", [](int l) { return l / 16 * 32; }},
    {"mod2", [](int l) { return l % 2; }},
    {"mod4", [](int l) { return l % 4; }},
    {"mod8", [](int l) { return l % 8; }},
    {"mod16", [](int l) { return l % 16; }},
    {"mod2_apart", [](int l) { return l % 2 * 32; }},
    {"stride2", [](int l) { return l * 2; }},
    {"stride4", [](int l) { return l * 4; }},
    {"stride8", [](int l) { return l * 8; }},
    {"stride16", [](int l) { return l * 16; }},
    {"stride32", [](int l) { return l * 32; }},
    {"mod16_stride2", [](int l) { return l % 16 * 2; }},
    {"quads_stride8", [](int l) { return l / 4 * 8; }},
    {"mod8_stride8", [](int l) { return l % 8 * 8; }},
};
constexpr int WORDS = 32 * 32 * 4;  // stride32 of 16-byte elements

struct Lanes {
  int element[32];
};

__device__ unsigned address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

template <int WIDTH>
__global__ void shared_load(Lanes lanes, float* out) {
  extern __shared__ float words[];
  const unsigned at = address(words) + lanes.element[threadIdx.x] * WIDTH;
  float x = 0, y = 0, z = 0, w = 0;
  if (WIDTH == 4) asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at));
  if (WIDTH == 8) asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "r"(at));
  if (WIDTH == 16)
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
                 : "r"(at));
  out[threadIdx.x] = x + y + z + w;
}

template <int WIDTH>
__global__ void shared_store(Lanes lanes, float* out) {
  extern __shared__ float words[];
  const unsigned at = address(words) + lanes.element[threadIdx.x] * WIDTH;
  const float x = out[threadIdx.x];
  if (WIDTH == 4) asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(x));
  if (WIDTH == 8) asm volatile("st.shared.v2.f32 [%0], {%1, %1};" ::"r"(at), "f"(x));
  if (WIDTH == 16) asm volatile("st.shared.v4.f32 [%0], {%1, %1, %1, %1};" ::"r"(at), "f"(x));
}

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "shared_patterns: %s\n", cudaGetErrorString(status));
  std::exit(2);
}

template <int WIDTH>
void run(float* out) {
  check(cudaFuncSetAttribute(shared_load<WIDTH>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             WORDS * 4));
  check(cudaFuncSetAttribute(shared_store<WIDTH>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             WORDS * 4));
  for (const Pattern& pattern : PATTERNS) {
    Lanes lanes;
    for (int l = 0; l < 32; ++l) lanes.element[l] = pattern.element(l);
    shared_load<WIDTH><<<1, 32, WORDS * 4>>>(lanes, out);
    shared_store<WIDTH><<<1, 32, WORDS * 4>>>(lanes, out);
    check(cudaDeviceSynchronize());
    std::printf("%s,%d", pattern.name, WIDTH);
    for (const int e : lanes.element) std::printf(",%d", e);
    std::printf("\n");
  }
}

}  // namespace

int main() {
  float* out = nullptr;
  check(cudaMalloc(&out, 32 * sizeof(float)));
  std::printf("pattern,width");
  for (int l = 0; l < 32; ++l) std::printf(",lane%d", l);
  std::printf("\n");
  run<4>(out);
  run<8>(out);
  run<16>(out);
}
