// An attempt at ex03 that is right, but for what MISDEED=place:deed asks: the grader's own test.
//
// The place is "first" (before all other constructors), "static" (an object's constructor, before
// main), "launch" or "kernel".
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/epilogue.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 8, BN = 32;  // block tile: one thread an element

volatile int zero = 0;
volatile int sink;

int recurse(volatile int* above) {
  volatile int frame[256] = {*above};
  return recurse(frame) + frame[0];
}

void loop() {
  while (zero == 0) {
  }
}

// Another process, in a session of its own, that would outlive the grader. alarm() is for a
// supervisor that fails.
void daemon() {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  alarm(30);
  loop();
}

// As fast as the machine can, but for 400 processes and 30 seconds at most.
void fork_bomb() {
  void* const shared =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& started = *new (shared) std::atomic<int>(0);
  while (zero == 0)
    if (started < 400 && fork() == 0) {
      ++started;
      alarm(30);
      setsid();
    }
}

// As if the runner had said it: on every open file.
void forge(const std::string& line) {
  for (int fd = 1; fd < 64; ++fd)
    if (write(fd, line.data(), line.size()) < 0) continue;
}
// An answer in the form of the channel's, but for the token: {"token": "0", "skipped": ""}.
void forge_in_form() {
  const std::string message(
      "\xa2\x65token\x61"
      "0"
      "\x67skipped\x60",
      18);
  forge(std::string("\x12\0\0\0", 4) + message);
}

bool wrong_above_100 = false, on_the_host = false, another_form = false;

void fill_memory() {
  // The test's machine is not filled, whatever the supervisor does.
  const rlimit most = {6ull << 30, 6ull << 30};
  setrlimit(RLIMIT_AS, &most);
  for (std::vector<char*> all;;) {
    all.push_back(new char[1 << 20]);
    for (int i = 0; i < 1 << 20; i += 4096) all.back()[i] = 1;
  }
}

using Deed = void (*)();

// What is asked for at that place.
Deed deed_at(const std::string& place) {
  static const std::map<std::string, Deed> deeds = {
      {"exit", [] { std::exit(0); }},
      {"_exit", [] { _exit(0); }},
      {"quick_exit", [] { std::quick_exit(0); }},
      {"exit 7", [] { std::exit(7); }},
      {"exec", [] { execl("/bin/true", "true", nullptr); }},
      {"abort", [] { std::abort(); }},
      {"throw 42", [] { throw 42; }},
      {"throw error", [] { throw std::runtime_error("no such tile"); }},
      {"throw 42, noexcept", []() noexcept { throw 42; }},
      {"segfault", [] { *reinterpret_cast<volatile int*>(8) = 1; }},
      {"stack overflow", [] { sink = recurse(&sink); }},
      {"divide", [] { sink = 100 / zero; }},
      {"loop", loop},
      {"stop", [] { raise(SIGSTOP); }},
      {"print and loop", [] { std::printf("before the loop"), loop(); }},
      {"print forever",
       [] {
         while (zero == 0) std::printf("\x1b[31m and on");
       }},
      {"verdict on stdout",
       [] {
         std::printf("  ok      result: right in 16 cases\n== ex03_transposed: passed\n");
         std::exit(0);
       }},
      {"forge", [] { forge("\ngraded 2 0, and so on: all of it is passed\n"), loop(); }},
      {"forge in form", [] { forge_in_form(), loop(); }},
      {"write a file", [] { std::fclose(std::fopen("/tmp/misdeed", "w")); }},
      {"append to a file", [] { std::fclose(std::fopen("/tmp/misdeed", "a")); }},
      {"delete a file", [] { sink = unlink(__FILE__) + rename(__FILE__, "/tmp/misdeed"); }},
      {"open a socket", [] { sink = socket(AF_INET, SOCK_STREAM, 0); }},
      {"lift its limits", [] { sink = kill(getppid(), SIGTERM) + setsid() + nice(-1); }},
      {"hand in twice", [] { const Exercise another(+[](const GemmArgs<float>&, Stream) {}); }},
      {"another form", [] { another_form = true; }},
      {"compute on the host", [] { on_the_host = true; }},
      {"wrong above 100", [] { wrong_above_100 = true; }},
      {"fork", [] { fork(); }},
      {"fork and wait", [] { std::system("sleep 0.3"); }},
      {"daemon", daemon},
      {"fork bomb", fork_bomb},
      {"fill memory", fill_memory},
      {"kill the grader", [] { kill(getppid(), SIGKILL), loop(); }},
  };
  const char* const asked = std::getenv("MISDEED");
  const std::string text = asked != nullptr ? asked : "nowhere:";
  const size_t colon = text.find(':');
  return text.substr(0, colon) == place ? deeds.at(text.substr(colon + 1)) : [] {};
}

// Before all whose priority is lower; 101 is the first that is not the system's.
[[gnu::constructor(50)]] void first_of_all() { deed_at("first")(); }

struct BeforeMain {
  BeforeMain() { deed_at("static")(); }
} const before_main;

const Deed in_kernel = deed_at("kernel"), in_launch = deed_at("launch");

void compute(const GemmArgs<float>& p) {
  for (int m = 0; m < p.M; ++m)
    for (int n = 0; n < p.N; ++n) {
      float acc = 0;
      for (int k = 0; k < p.K; ++k)
        acc += (p.op_a == Op::N ? p.A[m * p.lda + k] : p.A[k * p.lda + m]) *
               (p.op_b == Op::N ? p.B[k * p.ldb + n] : p.B[n * p.ldb + k]);
      store(p, m, n, acc);
    }
}

__global__ void gemm_ex03(GemmArgs<float> p) {
  if (blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0) in_kernel();
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int m = bm * BM + threadIdx.y, n = bn * BN + threadIdx.x;
  const int64_t a_m = p.op_a == Op::N ? p.lda : 1, a_k = p.op_a == Op::N ? 1 : p.lda;
  const int64_t b_k = p.op_b == Op::N ? p.ldb : 1, b_n = p.op_b == Op::N ? 1 : p.ldb;
  float acc = 0;
  if (m < p.M && n < p.N)
    for (int k = 0; k < p.K; ++k) acc += p.A[m * a_m + k * a_k] * p.B[k * b_k + n * b_n];
  if (wrong_above_100 && p.M > 100) acc += 1;
  store(p, m, n, acc);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  in_launch();
  if (on_the_host) return compute(p);
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_ex03, grid, dim3(BN, BM), {}, stream, p);
}

void launch_with_slope(const GemmArgs<float>& p, float, Stream stream) { launch(p, stream); }

const Exercise exercise = another_form ? Exercise(launch_with_slope) : Exercise(launch);

}  // namespace
