// Products on several devices: arguments checked, and handed to a rung of several GPUs.
#include "sharded/sharded.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "gemm/gemm.h"
#include "launch_mode.h"
#include "library/backend.h"
#include "library/call.h"
#include "sharded/rank_group.h"

// A handle as the caller holds it. It is used under a lock.
struct gemm_sharded {
  static constexpr uint64_t MAGIC = 0x64726168736d6567;  // "gemshard"
  uint64_t magic = MAGIC;
  const gemm::library::Computer& computer;
  gemm::ShardedProblem problem;
  std::vector<int> here;     // the ranks that this process has
  std::vector<int> devices;  // of each of them
  bool apart = false;        // the others are other processes; in the simulator other threads
  const gemm::ShardedRung* rung = nullptr;
  std::unique_ptr<gemm::Fabric> fabric = nullptr;
  std::unique_ptr<gemm::ShardedGemm> gemm = nullptr;  // destroyed before the fabric
  // How the first run that failed ended: no further product can run.
  gemm_status failed = GEMM_OK;
  std::string why = {};
  std::mutex own_turn = {};
  // Threads, streams and mapped memory of others are not there in a child of fork().
  pid_t process = getpid();
};

namespace gemm::library {
namespace {

// Elements of what ranks exchange: counts of its tiles fit in an int.
constexpr int64_t LARGEST_EXCHANGE = int64_t{1} << 40;

static_assert(int{GEMM_MOST_RANKS} == MOST_RANKS);
static_assert(int{GEMM_ALL_GATHER} == int(Collective::all_gather) &&
              int{GEMM_REDUCE_SCATTER} == int(Collective::reduce_scatter) &&
              int{GEMM_ALL_REDUCE} == int(Collective::all_reduce));

// One product is queued, on all of its devices, before the next one begins (make_gpu_fabric).
std::mutex& turn_of(const Computer& computer) {
  static std::mutex simulator, gpus;
  // Whoever had the turn is not there in a child of fork().
  [[maybe_unused]] static const int at_fork = pthread_atfork(nullptr, nullptr, [] {
    new (&simulator) std::mutex;
    new (&gpus) std::mutex;
  });
  return computer.backend == Backend::gpu ? gpus : simulator;
}
// Simulated ranks that are threads wait for each other: each has its own handle, and its own turn.
std::mutex& turn_of(gemm_sharded& h) {
  return h.apart && h.computer.backend == Backend::sim ? h.own_turn : turn_of(h.computer);
}

ShardedProblem checked(const gemm_sharded_problem* problem) {
  if (problem == nullptr) fail(GEMM_BAD_ARGUMENT, "problem is a null pointer");
  const gemm_sharded_problem p = sized(*problem, sizeof(gemm_sharded_problem),
                                       "gemm_sharded_problem", "GEMM_SHARDED_PROBLEM_DEFAULT");
  if (p.collective < GEMM_ALL_GATHER || p.collective > GEMM_ALL_REDUCE)
    fail(GEMM_BAD_ARGUMENT, "collective is ", p.collective,
         ": allowed are GEMM_ALL_GATHER, GEMM_REDUCE_SCATTER and GEMM_ALL_REDUCE");
  check_extent("m", p.m, 1);
  check_extent("n", p.n, 1);
  check_extent("k", p.k, 1);
  if (p.type != GEMM_F16 && p.type != GEMM_BF16)
    fail(GEMM_BAD_ARGUMENT, "type is ", p.type, ": allowed are GEMM_F16 and GEMM_BF16");
  check_op("op_b", p.op_b);
  if (p.ranks < 2 || p.ranks > MOST_RANKS)
    fail(GEMM_BAD_ARGUMENT, "ranks is ", p.ranks, ": allowed are 2 to ", MOST_RANKS);
  if (p.reserved != 0) fail(GEMM_BAD_ARGUMENT, "gemm_sharded_problem.reserved is not 0");
  const bool gather = p.collective == GEMM_ALL_GATHER;
  if (const int64_t exchanged = p.m * (gather ? p.k : p.n); exchanged > LARGEST_EXCHANGE)
    fail(GEMM_BAD_ARGUMENT, gather ? "m * k is " : "m * n is ", exchanged, ": allowed are 1 to ",
         LARGEST_EXCHANGE);
  return {.collective = static_cast<Collective>(p.collective),
          .dtype = p.type == GEMM_F16 ? DType::f16 : DType::bf16,
          .ranks = p.ranks,
          .M = static_cast<int>(p.m),
          .N = static_cast<int>(p.n),
          .K = static_cast<int>(p.k),
          .op_b = static_cast<Op>(p.op_b)};
}

// The ranks' devices as in a PlanKey: all simulated, or different GPUs.
std::vector<int> checked_devices(const int* devices, int ranks) {
  std::vector<int> keys;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool first_gpus = devices == nullptr && GPUS != nullptr;
    const int device = first_gpus ? rank : devices == nullptr ? int{GEMM_SIMULATOR} : devices[rank];
    const int key = key_device(device);
    place_of(key).info();  // throws where there is none
    if (!keys.empty() && (key == GEMM_SIMULATOR) != (keys[0] == GEMM_SIMULATOR))
      fail(GEMM_BAD_ARGUMENT, "rank ", rank,
           ": the ranks are GPUs, or all of them are GEMM_SIMULATOR");
    if (const auto same = std::find(keys.begin(), keys.end(), key);
        key != GEMM_SIMULATOR && same != keys.end())
      fail(GEMM_BAD_ARGUMENT, "GPU ", key, " is rank ", same - keys.begin(), " and rank ", rank,
           ": each rank has a GPU of its own");
    keys.push_back(key);
  }
  return keys;
}

// Kernels that wait for each other must fill their GPUs alike.
void check_alike(const std::vector<int>& devices) {
  const DeviceInfo& first = place_of(devices[0]).info();
  for (const int device : devices)
    if (const DeviceInfo& info = place_of(device).info();
        info.sm != first.sm || info.arch.sms != first.arch.sms)
      fail(GEMM_UNSUPPORTED, "GPU ", devices[0], " has ", first.arch.sms, " SMs of sm_", first.sm,
           " and GPU ", device, " ", info.arch.sms, " of sm_", info.sm,
           ": all ranks have the same kind of GPU");
}

// Rungs of this problem, in order: all that are chosen for it, or the one with this id or name.
// `apart`: of those that run where each rank has a process.
std::vector<const ShardedRung*> candidates(const ShardedProblem& p, Backend backend, const char* id,
                                           bool apart) {
  std::vector<const ShardedRung*> found;
  std::string known;
  for (const ShardedRung* rung : sharded_rungs(backend)) {
    if (rung->collective != p.collective || rung->dtype != p.dtype) continue;
    if (apart && !rung->apart) continue;
    known += (known.empty() ? "" : ", ") + rung->id;
    if (id == nullptr ? int64_t{p.M} * p.N <= rung->most_elements
                      : rung->id == id || rung->name == id)
      found.push_back(rung);
  }
  if (found.empty())
    fail(GEMM_BAD_ARGUMENT, "there is no rung \"", id == nullptr ? "" : id, "\" of ",
         name_of(p.collective), apart ? " with a process for each rank" : "", ": choose from ",
         known);
  return found;
}

// Why a rung cannot run; empty: it can. One without needs of its own multiplies by the dispatcher's
// choice, and needs what that does.
std::string unmet(const ShardedRung& rung, const Place& place, const Fabric* fabric) {
  Needs needs = rung.needs;
  for (const Rung* r : rungs_of(place.computer))
    if (needs.sm == 0 && r->dispatches && r->dtype == rung.dtype) needs = r->needs;
  if (!runs_on(needs, place.info()))
    return rung.name + " does not run on " + place.info().arch.name + " (sm_" +
           std::to_string(place.info().sm) + ")";
  return rung.collectives ? fabric->without_collectives() : std::string();
}

// The last one that can run: a later rung is the faster one. `fabric`: null where no rung needs its
// collectives.
const ShardedRung& choose(const std::vector<const ShardedRung*>& rungs, const Place& place,
                          const Fabric* fabric) {
  for (auto it = rungs.rbegin(); it != rungs.rend(); ++it)
    if (unmet(**it, place, fabric).empty()) return **it;
  fail(GEMM_UNSUPPORTED, unmet(*rungs.back(), place, fabric));
}

const gemm_sharded& held(const gemm_sharded* sharded) {
  if (sharded == nullptr) fail(GEMM_BAD_ARGUMENT, "sharded is a null pointer");
  if (sharded->magic != gemm_sharded::MAGIC)
    fail(GEMM_BAD_ARGUMENT, "sharded was not made by gemm_sharded_create");
  return *sharded;
}
gemm_sharded& held(gemm_sharded* sharded) {
  held(static_cast<const gemm_sharded*>(sharded));
  return *sharded;
}

// One rank's operands, checked.
ShardedOperands checked(const gemm_sharded& h, int rank, int device,
                        const gemm_sharded_operands& given) {
  const gemm_sharded_operands x = sized(given, sizeof(gemm_sharded_operands),
                                        "gemm_sharded_operands", "GEMM_SHARDED_OPERANDS_DEFAULT");
  if (x.reserved != 0) fail(GEMM_BAD_ARGUMENT, "gemm_sharded_operands.reserved is not 0");
  const ShardedProblem& p = h.problem;
  const bool gather = p.collective == Collective::all_gather, transposed = p.op_b == Op::T;
  const bool scatter = p.collective == Collective::reduce_scatter;
  const int rows = p.shards().rows(rank), bytes = info(info(p.dtype).in).bytes;
  Matrix a{"A", gather ? rows : p.M, p.K, x.lda, bytes};
  Matrix b{"B", transposed ? p.N : p.K, transposed ? p.K : p.N, x.ldb, bytes};
  Matrix c{"C", scatter ? rows : p.M, p.N, x.ldc, bytes};
  for (Matrix* matrix : {&a, &b, &c}) check_rows(*matrix);
  check_pointer(a, x.a);
  check_pointer(b, x.b);
  check_pointer(c, x.c);
  h.computer.check_stream(device, x.stream);
  return {.A = x.a, .lda = a.ld, .B = x.b, .ldb = b.ld, .C = x.c, .ldc = c.ld};
}

// The i-th of an array whose elements have the size that the program was compiled with.
const gemm_sharded_operands& at(const gemm_sharded_operands* operands, int i) {
  const char* const first = reinterpret_cast<const char*>(operands);
  return *reinterpret_cast<const gemm_sharded_operands*>(first + i * int64_t{operands->size});
}

// After a failure: all callers' streams wait for what has been queued on any rank. What fails here,
// too, is left: the first failure is the one to tell.
void order_after_failure(gemm_sharded& h, const std::vector<void*>& streams) {
  // In the simulator nothing runs by itself, and destroying the fabric drops what is queued.
  if (h.computer.backend == Backend::sim) return;
  const auto attempt = [](auto&& f) {
    try {
      f();
    } catch (const std::exception&) {
    }
  };
  Fabric& fabric = *h.fabric;
  attempt([&] { fabric.mark(); });
  std::vector<Fabric::Event> queued;
  for (const int rank : h.here)
    for (void* const stream : {fabric.compute(rank), fabric.copies(rank)})
      attempt([&] { queued.push_back(fabric.record(stream)); });
  for (size_t i = 0; i < h.here.size(); ++i) {
    const int rank = h.here[i];
    for (const Fabric::Event& event : queued)
      attempt([&] { fabric.wait(fabric.compute(rank), event); });
    attempt([&] { fabric.end_before(rank, streams[i]); });
  }
}

// Queues the product. In the simulator it has been computed on return. `streams`: of the ranks
// here.
void enqueue(gemm_sharded& h, const ShardedCall& call, const std::vector<void*>& streams) {
  const LaunchModeScope scope(LaunchMode{});
  if (const std::string why = h.fabric->lost(); !why.empty()) throw RankFailure(why);
  try {
    for (size_t i = 0; i < h.here.size(); ++i) h.fabric->begin_after(h.here[i], streams[i]);
    // A kernel that waits for another rank fills its GPU. What that rank's stream waits for may
    // have to run there. So no kernel begins before all streams have come this far: each rung sees
    // to it.
    h.gemm->enqueue(call);
    for (size_t i = 0; i < h.here.size(); ++i) h.fabric->end_before(h.here[i], streams[i]);
    h.fabric->mark();
  } catch (...) {
    order_after_failure(h, streams);
    throw;
  }
  if (h.computer.backend == Backend::sim) h.fabric->synchronize();
}

// What a rank tells the others of itself, when they make a handle: in all but the GPU they agree.
struct Card {
  char version[32], backend[16], rung[32], arch[64], gpu[17];
  int64_t process, m, n, k;
  int32_t type, op_b, collective, ranks, sm, sms;
};

template <size_t SIZE>
void put(char (&to)[SIZE], const std::string& text) {
  std::memcpy(to, text.data(), std::min(SIZE - 1, text.size()));  // the last byte stays 0
}

Card card_of(const ShardedProblem& p, const Place& place, const std::string& rung) {
  const DeviceInfo& info = place.info();
  Card card{};
  put(card.version, GEMM_VERSION);
  put(card.backend, place.computer.name);
  put(card.rung, rung);
  put(card.arch, info.arch.name);
  put(card.gpu, place.computer.identity(place.device));
  card.process = getpid();
  card.m = p.M, card.n = p.N, card.k = p.K;
  card.type = p.dtype == DType::f16 ? GEMM_F16 : GEMM_BF16;
  card.op_b = static_cast<int32_t>(p.op_b);
  card.collective = static_cast<int32_t>(p.collective);
  card.ranks = p.ranks;
  card.sm = info.sm, card.sms = info.arch.sms;
  return card;
}

// Throws where two ranks disagree: tells the first thing in which they do.
void check_cards(const std::vector<Card>& cards, bool on_gpus) {
  const Card& first = cards[0];
  for (size_t rank = 1; rank < cards.size(); ++rank) {
    const Card& c = cards[rank];
    const auto same = [&](const char* what, const auto& a, const auto& b) {
      if (a != b)
        fail(GEMM_BAD_ARGUMENT, "the ranks disagree: ", what, " is ", a, " on rank 0 and ", b,
             " on rank ", rank);
    };
    const auto text = [&](const char* what, const char* a, const char* b) {
      same(what, std::string(a), std::string(b));
    };
    text("the library's version", first.version, c.version);
    text("the backend", first.backend, c.backend);
    same("ranks", first.ranks, c.ranks);
    same("collective", first.collective, c.collective);
    same("m", first.m, c.m);
    same("n", first.n, c.n);
    same("k", first.k, c.k);
    same("type", first.type, c.type);
    same("op_b", first.op_b, c.op_b);
    text("the rung", first.rung, c.rung);
    text("the GPU", first.arch, c.arch);  // by whose costs each rank chooses its tiles
    same("the GPU's architecture", first.sm, c.sm);
    same("the number of SMs", first.sms, c.sms);
  }
  for (size_t rank = 1; on_gpus && rank < cards.size(); ++rank)
    for (size_t other = 0; other < rank; ++other) {
      if (std::memcmp(cards[rank].gpu, cards[other].gpu, sizeof Card::gpu) == 0)
        fail(GEMM_BAD_ARGUMENT, "rank ", other, " and rank ", rank,
             " have the same GPU: each rank has a GPU of its own");
      if (cards[rank].process == cards[other].process)
        fail(GEMM_BAD_ARGUMENT, "rank ", other, " and rank ", rank, " are of process ",
             cards[rank].process, ": gemm_sharded_create is for ranks of one process");
    }
}

gemm_rank checked(const gemm_rank* given, const gemm_sharded_problem* problem) {
  if (given == nullptr) fail(GEMM_BAD_ARGUMENT, "rank is a null pointer");
  if (problem == nullptr) fail(GEMM_BAD_ARGUMENT, "problem is a null pointer");
  const gemm_rank r = sized(*given, sizeof(gemm_rank), "gemm_rank", "GEMM_RANK_DEFAULT");
  if (problem->ranks < 2 || problem->ranks > MOST_RANKS)
    fail(GEMM_BAD_ARGUMENT, "ranks is ", problem->ranks, ": allowed are 2 to ", MOST_RANKS);
  if (r.rank < 0 || r.rank >= problem->ranks)
    fail(GEMM_BAD_ARGUMENT, "rank is ", r.rank, ": allowed are 0 to ", problem->ranks - 1);
  if (r.time_limit < 0)
    fail(GEMM_BAD_ARGUMENT, "time_limit is ", r.time_limit, ": allowed are 0 and more seconds");
  if (r.exchange == nullptr) fail(GEMM_BAD_ARGUMENT, "exchange is a null pointer");
  return r;
}

// Calls f on the first rank's device. `lost` is the device that is found broken after a failure.
template <class F>
void on_devices(const Computer& computer, const std::vector<int>& devices, int& lost, F&& f) {
  try {
    computer.on_device(place_of(devices[0]).device, f);
  } catch (const std::runtime_error&) {
    if (computer.backend == Backend::gpu)
      for (const int device : devices)
        if (computer.is_broken(device)) lost = device;
    throw;
  }
}

}  // namespace
}  // namespace gemm::library

using namespace gemm::library;

gemm_status gemm_shard_rows(const gemm_sharded_problem* problem, int rank, int64_t* first,
                            int64_t* rows) {
  return guarded([&] {
    const gemm::ShardedProblem p = checked(problem);
    if (rank < 0 || rank >= p.ranks)
      fail(GEMM_BAD_ARGUMENT, "rank is ", rank, ": allowed are 0 to ", p.ranks - 1);
    if (first == nullptr || rows == nullptr)
      fail(GEMM_BAD_ARGUMENT, first == nullptr ? "first" : "rows", " is a null pointer");
    *first = p.shards().first(rank);
    *rows = p.shards().rows(rank);
  });
}

gemm_status gemm_sharded_create(const gemm_sharded_problem* problem, const int* devices,
                                const char* rung, gemm_sharded** sharded) {
  int lost = -1;
  return guarded(lost, [&] {
    if (sharded == nullptr) fail(GEMM_BAD_ARGUMENT, "sharded is a null pointer");
    *sharded = nullptr;
    const gemm::ShardedProblem p = checked(problem);
    const std::vector<int> keys = checked_devices(devices, p.ranks);
    check_alike(keys);
    const Place place = place_of(keys[0]);
    const auto rungs = candidates(p, place.computer.backend, rung, false);
    auto made = std::unique_ptr<gemm_sharded>(
        new gemm_sharded{.computer = place.computer, .problem = p, .here = {}, .devices = keys});
    for (int rank = 0; rank < p.ranks; ++rank) made->here.push_back(rank);
    const std::lock_guard turn(turn_of(place.computer));
    on_devices(place.computer, keys, lost, [&] {
      std::string why;
      made->fabric = place.computer.make_fabric(keys, why);
      if (made->fabric == nullptr) fail(GEMM_UNSUPPORTED, why);
      made->rung = &choose(rungs, place, made->fabric.get());
      made->gemm = made->rung->make(p, *made->fabric, gemm::ANY_VARIANT);
    });
    *sharded = made.release();
  });
}

gemm_status gemm_sharded_create_rank(const gemm_sharded_problem* problem, const gemm_rank* rank,
                                     const char* rung, gemm_sharded** sharded) {
  int lost = -1;
  return guarded(lost, [&] {
    if (sharded == nullptr) fail(GEMM_BAD_ARGUMENT, "sharded is a null pointer");
    *sharded = nullptr;
    const gemm_rank r = checked(rank, problem);
    const auto all_gather = [&](const void* mine, void* all, size_t bytes) {
      return r.exchange(r.context, mine, all, bytes) == 0;
    };
    constexpr int TIME_LIMIT = 600;  // seconds, as NCCL's in torch
    const auto group = std::make_shared<gemm::RankGroup>(
        r.rank, problem->ranks, all_gather,
        std::chrono::seconds(r.time_limit == 0 ? TIME_LIMIT : r.time_limit));
    std::unique_ptr<gemm_sharded> made;
    // From here on all ranks take the same steps: what fails on one is told to all.
    const std::vector<Card> cards = group->gather([&] {
      const gemm::ShardedProblem p = checked(problem);
      const int key = key_device(r.device);
      const Place place = place_of(key);
      const auto rungs = candidates(p, place.computer.backend, rung, true);
      made.reset(new gemm_sharded{.computer = place.computer,
                                  .problem = p,
                                  .here = {r.rank},
                                  .devices = {key},
                                  .apart = true,
                                  .rung = &choose(rungs, place, nullptr)});
      return card_of(p, place, made->rung->name);
    });
    check_cards(cards, made->computer.backend == gemm::Backend::gpu);
    on_devices(made->computer, made->devices, lost, [&] {
      made->fabric = made->computer.make_rank(place_of(made->devices[0]).device, group);
      made->gemm = made->rung->make(made->problem, *made->fabric, gemm::ANY_VARIANT);
    });
    group->no_more_gathering();
    *sharded = made.release();
  });
}

gemm_status gemm_sharded_explain(const gemm_sharded* sharded, char* text, size_t size) {
  return guarded([&] {
    const gemm_sharded& h = held(sharded);
    std::string told = h.rung->name;
    if (h.computer.backend == gemm::Backend::sim)
      told += " on " + std::to_string(h.problem.ranks) + " simulated devices";
    else
      for (const int device : h.devices)
        told += (device != h.devices[0] ? ", "
                 : h.apart              ? " on GPU "
                                        : " on GPUs ") +
                std::to_string(device);
    if (h.apart)
      told += ", rank " + std::to_string(h.here[0]) + " of " + std::to_string(h.problem.ranks);
    put_text(told, text, size);
  });
}

gemm_status gemm_sharded_run(gemm_sharded* sharded, const gemm_sharded_operands* operands) {
  int lost = -1;
  return guarded(lost, [&] {
    gemm_sharded& h = held(sharded);
    if (h.process != getpid())
      fail(GEMM_BAD_ARGUMENT, "the product was made before fork(): make one in this process");
    if (operands == nullptr) fail(GEMM_BAD_ARGUMENT, "operands is a null pointer");
    gemm::ShardedCall call(h.problem.ranks);
    std::vector<void*> streams;
    for (size_t i = 0; i < h.here.size(); ++i) try {
        lost = h.devices[i];  // where a failure may be the device's
        const gemm_sharded_operands& of = at(operands, static_cast<int>(i));
        if (of.size != operands->size)
          fail(GEMM_BAD_ARGUMENT, "gemm_sharded_operands.size is ", of.size, ", and rank 0 has ",
               operands->size);
        call[h.here[i]] = checked(h, h.here[i], h.devices[i], of);
        streams.push_back(of.stream);
      } catch (const Failure& f) {
        fail(f.status, "rank ", h.here[i], ": ", f.what());
      }
    const std::lock_guard turn(turn_of(h));
    if (h.failed != GEMM_OK)
      fail(h.failed, "an earlier run of this handle failed, and the ranks disagree: ", h.why);
    h.failed = guarded(
        lost, [&] { on_devices(h.computer, h.devices, lost, [&] { enqueue(h, call, streams); }); });
    if (h.failed == GEMM_OK) return;
    h.why = last_error();
    h.fabric->fail(h.why);
    fail(h.failed, h.why);
  });
}

gemm_status gemm_sharded_destroy(gemm_sharded* sharded) {
  int lost = -1;
  return guarded(lost, [&] {
    if (sharded == nullptr) return;
    gemm_sharded& h = held(sharded);
    if (h.process != getpid()) return;  // left to the process that made it
    h.magic = 0;
    on_devices(h.computer, h.devices, lost, [&] {
      // Not in turn: products of other handles may be queued meanwhile. After a failure the handle
      // is left: what still runs may use its memory, and to free that would wait for ever.
      h.fabric->wait_for_mark();
      // In turn: CUDA frees when the device is idle. It never is while another handle's product is
      // queued on some of its ranks only.
      const std::lock_guard turn(turn_of(h));
      h.gemm.reset();
      h.fabric->check_released();
      h.fabric.reset();
    });
    delete sharded;
  });
}
