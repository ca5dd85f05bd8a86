#include "plan/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/engine_correction.h"
#include "plan/estimate.h"

namespace gemm::engine {
namespace {

constexpr int BK = 64, MOST_PARTS = 16, MORE_WAVES = 3, GPC_CTAS = 16;
// A cluster's shape, and whether its CTAs load for each other. If not, they run side by side, and L2
// gets their requests for the same rows as one. in_parts: K may be in parts, one for all of a
// cluster's CTAs, whose sums a second kernel adds up.
struct ClusterKind {
  ClusterShape shape;
  bool multicast, in_parts = false;
};
// The other five kinds are worth 0.1 % together, and so are parts of K in the other six of these
// (plots/NOTES.md).
constexpr ClusterKind CLUSTERS[] = {{{0, 0}, false, true}, {{1, 0}, true},        {{0, 1}, true},
                                    {{2, 1}, true},        {{1, 2}, true, true},  {{0, 3}, true},
                                    {{1, 0}, false},       {{0, 1}, false, true}, {{2, 0}, false},
                                    {{1, 1}, false, true}};

PlannedProblem without_c(PlannedProblem p) {
  p.reads_c = false;
  return p;
}

// What all choices of a call have in common. Times are in microseconds.
struct Common {
  const PlannedProblem& p;
  const Arch& arch;
  const EngineCosts& c = arch.costs->engine;
  int k_tiles = ceil_div(p.K, BK);
  bool whole_lines = p.a == RowRequests::one && p.b == RowRequests::one;
  // Memory, for a product: with C where it is read, and without. The correction knows the latter.
  double memory = memory_us(p, c.memory) / std::max(p.products, 1);
  double product_memory = memory_us(without_c(p), c.memory) / std::max(p.products, 1);
  double begin = c.launch + copies_us(p, c);  // before a kernel's main loop
  double store = store_us(p, c);              // of a million results by an SM
  // An epilogue pass: it reads the product and C, and writes.
  double pass = c.launch + 1e-6 * p.element_bytes * p.M * p.N * (p.reads_c ? 3 : 2) / c.memory;
  int at_a_time[MAX_CLUSTER + 1];  // [n]: clusters of n CTAs that run at once

  Common(const PlannedProblem& problem, const Arch& a) : p(problem), arch(a) {
    for (int size = 1; size <= MAX_CLUSTER; ++size)
      at_a_time[size] = clusters_at_a_time(arch, size);
  }
};

// The problem with x and y in place of M and N.
struct Oriented {
  int X, Y;
  bool x_k_major, y_k_major;
  double x_requests, y_requests;  // for 128 bytes of a row
  bool x_sectors, y_sectors;      // rows begin at sectors of L2

  Oriented(const PlannedProblem& p, const EngineCosts& c, bool swapped) {
    const double a = requests(p.a, c), b = requests(p.b, c);
    X = swapped ? p.N : p.M, Y = swapped ? p.M : p.N;
    x_k_major = swapped ? p.b_k_major : p.a_k_major;
    y_k_major = swapped ? p.a_k_major : p.b_k_major;
    x_requests = swapped ? b : a, y_requests = swapped ? a : b;
    x_sectors = (swapped ? p.b : p.a) != RowRequests::half;
    y_sectors = (swapped ? p.a : p.b) != RowRequests::half;
  }
};

// What the main loops of all CTAs do.
struct Work {
  double depth, all_depth;  // of K, in tiles of bx x by: on the busiest SM, on all
  double bx, by, columns;   // by: of wgmma; columns: as loaded
  double rows;              // that a CTA asks L2 for, a k at a time; those across lines count more
  double full;              // part of all tiles that lies in C; one at its edge takes as long
  double products = 1;      // that this launch computes
  bool by_turns = false, multicast = false;
};
// A choice that would need a lower factor than GIVE_UP_BELOW to win is given up. With the network's least,
// 1 - MOST_CORRECTED, no plan of 9,692 problems differs, and a plan takes 1.1 to 1.25 times as long.
constexpr double NO_LIMIT = std::numeric_limits<double>::infinity(), GIVE_UP_BELOW = 0.8;

// The main loop: what it waits for, and how long it takes, in microseconds. `us` is infinite if
// multiplying alone takes `limit`.
struct Loop {
  double multiply = NO_LIMIT, from_l2 = 0, into_sm = 0, product_memory = 0, us = NO_LIMIT;
};
Loop main_loop(const Common& s, const Work& w, double limit = NO_LIMIT) {
  const EngineCosts& c = s.c;
  const double tensor = c.tensor * (w.by_turns ? c.ping_pong : 1);
  // Several consumers wait for the last of them; by turns they wait for nothing.
  const double k_tile = w.by_turns ? 0 : c.k_tile * (w.bx == 64 ? 1 : 1.5);
  const double multiply = w.depth * std::max(2e-6 * w.bx * w.by / tensor, k_tile / BK);
  const double factor = !w.multicast && s.whole_lines ? c.alone : 1;
  if (multiply * factor >= limit) return {};
  const double slower = std::pow(float(w.full), -float(c.edge));  // in float it takes half as long
  const double from_l2 = 2e-6 * w.all_depth * w.rows / c.l2 * slower;
  const double into_sm = 2e-6 * w.depth * (w.bx + w.columns) / c.fetch;
  const double memory = s.memory * w.products;
  // What it waits for longest, and a part of what comes second.
  const double us =
      std::sqrt(multiply * multiply + from_l2 * from_l2 + into_sm * into_sm + memory * memory);
  return {multiply, from_l2, into_sm, s.product_memory * w.products, us * factor};
}

// How C is cut, as the correction sees it.
struct Cut {
  float tiles_x, tiles_y, height, waves, tiles, k, full;  // k: of a tile or its part of K
};

// Factor on the estimate: it has learnt how the terms act together. scripts/fit_engine.py fits it, with
// the inputs in this order.
double correction(const Common& s, const Oriented& o, const Choice& choice, const Loop& loop,
                  const Cut& cut) {
  const Configuration& config = choice.config();
  const bool rectangle = config.schedule == Schedule::rectangle;
  Rectangle r{};
  r.parts = 1;
  if (rectangle) r = choice.cut;
  const double nothing = 1e-9;  // no 0 / 0 where K is 0
  const auto part_of = [&](double us) {
    return float(loop.multiply / (loop.multiply + us + nothing));
  };
  // CTAs side by side that ask L2 for the same rows of X and of Y: of a cluster, or of a GPC.
  int same_x = r.cluster.y(), same_y = r.cluster.x();
  if (rectangle && r.cluster.size() == 1 && !r.in_cluster) {
    const bool y_first = r.y_first();
    const int fast = std::clamp(y_first ? r.clusters_y : r.clusters_x, 1, GPC_CTAS);
    const int slow = GPC_CTAS / fast;
    same_x = y_first ? fast : slow, same_y = y_first ? slow : fast;
  }
  const float inputs[] = {
      float(!rectangle),
      float(r.in_cluster),
      float(r.parts > 1 && !r.in_cluster),
      float(config.bx == 64),
      float(config.bx == 192),
      float(r.multicast),
      float(r.cluster.size() > 1 && !r.multicast),
      cut.height / 256,
      1 / std::max(cut.waves, 1.0f),
      1 / float(r.parts),
      1 / float(same_x),
      1 / float(same_y),
      part_of(loop.from_l2),
      part_of(loop.into_sm),
      part_of(loop.product_memory),
      cut.k / (cut.k + 2048),
      cut.full,
      cut.tiles * r.parts / (std::max(cut.waves, 1.0f) * s.arch.sms),
      part_of(20),
      float(o.x_requests > 1),
      float(o.y_requests > 1),
      float(choice.swapped),
      float(o.x_k_major),
      float(o.y_k_major),
      float(config.schedule == Schedule::tiles),
      cut.tiles_x / (cut.tiles_x + 8),
      cut.tiles_y / (cut.tiles_y + 8),
      float(s.p.c != RowRequests::one),
      float(s.p.c == RowRequests::half),
      // An operand that comes without multicast in a cluster that has it.
      float(r.multicast &&
            ((r.cluster.log_y == 0 && o.x_sectors) || (r.cluster.log_x == 0 && o.y_sectors))),
  };
  return CORRECTION.factor(inputs);
}

// The time of tiles of one extent, tiles_x x tiles_y of them. It is infinite if even the least
// correction leaves it at `limit`.
double cooperative_us(const Common& s, const Oriented& o, const Choice& choice, int tiles_x,
                      int tiles_y, double limit) {
  const EngineCosts& c = s.c;
  const Configuration& config = choice.config();
  const Rectangle& cut = choice.cut;
  const int size = cut.cluster.size();
  const int units = cut.clusters() * cut.parts;
  const int waves = cut.in_cluster ? ceil_div(cut.clusters(), s.at_a_time[cut.parts])
                                   : ceil_div(units, s.at_a_time[size]);
  const double k = ceil_div(s.k_tiles, cut.parts) * BK;
  const ClusterShape sharing = cut.sharing();
  const int atom = o.y_k_major ? 8 * sharing.x() : 64;
  const double columns = ceil_div(cut.height, atom) * atom;
  const double rows = config.bx * o.x_requests / sharing.y() + columns * o.y_requests / sharing.x();
  const double results = 1e-6 * config.bx * cut.height;
  const double store = s.p.whole_epilogue ? c.store : s.store;
  // The CTAs of a cluster wait for each other when they begin and when they end.
  const double meet = 2 * c.cooperative;
  double end = 0;
  if (cut.in_cluster) {
    // Each CTA has one tile, and nothing hides its beginning. A result added up is read and stored.
    end += (waves - 1) * c.launch + waves * (cut.parts > 1 ? meet + results * c.moved : 0) +
           waves * results / cut.parts * (store + (s.p.aligned_c ? 2 : 3) * c.moved);
  } else if (cut.parts == 1) {
    end += waves * results * store;
  } else {
    const double sums = 4.0 * config.bx * cut.height * 1e-6 * units * size;  // millions of bytes
    end += waves * results * c.moved + sums / c.l2 + c.launch +
           results * cut.clusters() * size / s.arch.sms * store;
  }
  const double others = s.begin + c.cooperative + (cut.multicast ? meet : 0) + end;
  const double area = double(tiles_x) * config.bx * tiles_y * cut.height;
  const double full = area == 0 ? 1 : double(o.X) * o.Y / area;
  const Loop loop = main_loop(s,
                              {.depth = waves * k,
                               .all_depth = k * units * size,
                               .bx = double(config.bx),
                               .by = double(cut.height),
                               .columns = columns,
                               .rows = rows,
                               .full = full,
                               .multicast = cut.multicast},
                              limit / GIVE_UP_BELOW - others);
  const double us = others + loop.us, pass = s.p.whole_epilogue ? s.pass : 0;
  if (us * GIVE_UP_BELOW + pass >= limit) return NO_LIMIT;
  return pass + us * correction(s, o, choice, loop,
                                {.tiles_x = float(tiles_x),
                                 .tiles_y = float(tiles_y),
                                 .height = float(cut.height),
                                 .waves = float(waves),
                                 .tiles = float(cut.clusters()) * size,
                                 .k = float(k),
                                 .full = float(full)});
}

// Tiles that two consumers compute by turns.
struct Turns {
  double waves, tiles;
  double of_busiest;       // tiles that the busiest SM computes, in tiles of bx x by
  double bx, by, tallest;  // extents; by: on average
  double full;             // as in Work
  double products = 1;
  bool b_stays = false;
};
double by_turns_us(const Common& s, const Oriented& o, const Choice& choice, const Turns& t) {
  const EngineCosts& c = s.c;
  const double k = s.k_tiles * BK, columns = t.b_stays ? 0 : t.by;
  const Loop loop = main_loop(s, {.depth = k * t.of_busiest,
                                  .all_depth = k * t.tiles,
                                  .bx = t.bx,
                                  .by = t.by,
                                  .columns = columns,
                                  .rows = t.bx * o.x_requests + columns * o.y_requests,
                                  .full = t.full,
                                  .products = t.products,
                                  .by_turns = true});
  // The last tile's epilogue is alone; the others hide behind the other consumer's main loop.
  const double store = 1e-6 * t.bx * t.tallest * s.store;
  const double hidden = loop.us / t.waves;  // of one tile
  const double us = s.begin + loop.us + store +
                    (t.waves - 1) * std::max(0.0, store * c.staged - hidden) +
                    (s.p.aligned_c ? 0 : t.waves * t.bx * t.by * 1e-6 * c.moved);
  const double tiles_x = ceil_div(o.X, int(t.bx));
  return us * correction(s, o, choice, loop,
                         {.tiles_x = float(tiles_x),
                          .tiles_y = float(t.tiles / (tiles_x * t.products)),
                          .height = float(t.by),
                          .waves = float(t.waves),
                          .tiles = float(t.tiles),
                          .k = float(k),
                          .full = float(t.full)});
}

// What a result costs beside those of other tiles, and where B stays: measured, plots/NOTES.md.
constexpr double RESULT_COSTS[] = {1.0, 1.01, 1.25}, B_STAYS_COSTS[] = {0.93, 0.89, 0.95};
constexpr int TILE_COUNT = std::size(RESULT_COSTS), FIRST_TILE = CONFIGURATION_COUNT - TILE_COUNT;
static_assert(CONFIGURATIONS[FIRST_TILE].schedule == Schedule::tiles &&
              CONFIGURATIONS[FIRST_TILE - 1].schedule != Schedule::tiles);

// Whether B stays in shared memory: all of K fits in the pipeline, and CTAs have several tiles of a
// column. With up to three tiles for each CTA, tiles may be in pairs instead.
//
// The other limits were measured (plots/NOTES.md). C has many columns. 64 x 128 is for a K that the
// others do not hold. With K up to 192 CTAs come to the ends of columns together.
bool b_can_stay(const Common& s, const Configuration& config) {
  const PlannedProblem& p = s.p;
  const int64_t tiles_m = ceil_div(p.M, config.bx), tiles_n = ceil_div(p.N, config.by);
  const int64_t tiles = tiles_m * tiles_n, of_cta = (tiles + s.arch.ctas - 1) / s.arch.ctas;
  if (p.in_one_launch || p.groups || s.k_tiles == 0 || s.k_tiles > config.stages || tiles_m < 2 ||
      of_cta <= 3 || tiles > std::numeric_limits<int>::max())
    return false;
  if (config.bx == 64) return s.k_tiles > 6 && tiles_m >= 64 && tiles_n > 8;
  if (s.k_tiles > 3) return tiles_n > 8;
  return tiles_n > 16 && tiles_m >= of_cta && tiles_m % of_cta <= of_cta / 8;
}

// CTAs on one GPC that compute neighbours ask L2 together for common rows and columns: up to a
// quarter faster where a few tiles with a long K ask for most. Measured: pairs lie along the side
// with fewer tiles. Few tiles rather have a TPC each; in many waves CTAs drift apart.
Pairs choose_pairs(const Common& s, const Tiling& tiling) {
  const PlannedProblem& p = s.p;
  const int sms = s.arch.sms;
  if (!s.whole_lines || p.in_one_launch || p.launches > 1 || tiling.tiles * 2 <= sms ||
      tiling.tiles > 3 * sms)
    return Pairs::none;
  return ceil_div(p.M, tiling.bm) >= ceil_div(p.N, tiling.bn) ? Pairs::rows : Pairs::columns;
}

// Equal tiles: those of the least area in all waves, of all or of one configuration.
Choice choose_tiles(const Common& s, int configuration) {
  const PlannedProblem& p = s.p;
  const int sms = s.arch.sms;
  TileCost tiles[TILE_COUNT];
  bool b_stays[TILE_COUNT];
  for (int i = 0; i < TILE_COUNT; ++i) {
    const Configuration& config = CONFIGURATIONS[FIRST_TILE + i];
    b_stays[i] = b_can_stay(s, config);
    tiles[i] = {config.bx, config.by, b_stays[i] ? B_STAYS_COSTS[i] : RESULT_COSTS[i]};
  }
  const TileChoice tile =
      choose_tile(p.M, p.N, tiles, TILE_COUNT, sms,
                  configuration < 0 ? ANY_VARIANT : configuration - FIRST_TILE, p.products);
  Choice choice{};
  choice.configuration = FIRST_TILE + tile.index;
  choice.tiling = tile.tiling;
  choice.tiling.pairs = choose_pairs(s, choice.tiling);
  choice.tiling.b_stays = choice.tiling.pairs == Pairs::none && b_stays[tile.index];
  const int bm = tile.tiling.bm, bn = tile.tiling.bn;
  const Oriented o(p, s.c, false);
  const double of_one = double(ceil_div(p.M, bm)) * ceil_div(p.N, bn);
  const double count = of_one * p.products, waves = std::ceil(count / sms);
  choice.us = p.launches * by_turns_us(s, o, choice,
                                       {.waves = waves,
                                        .tiles = count,
                                        .of_busiest = waves,
                                        .bx = double(bm),
                                        .by = double(bn),
                                        .tallest = double(bn),
                                        .full = double(p.M) * p.N / (of_one * bm * bn),
                                        .products = double(p.products),
                                        .b_stays = choice.tiling.b_stays});
  return choice;
}

// Row panels: those with the least makespan.
Choice choose_panels(const Common& s, const Oriented& o, Choice choice) {
  const Configuration& config = choice.config();
  const int sms = s.arch.sms;
  const RowPanelChoice panels =
      choose_row_panels(o.Y, o.X, {config.bx, config.shortest, config.by}, sms);
  const double height = panels.height(), tiles = double(panels.tiles());
  choice.panels = panels.row_panels;
  choice.us = by_turns_us(s, o, choice,
                          {.waves = double(panels.waves(sms)),
                           .tiles = tiles,
                           .of_busiest = panels.makespan_rows(sms) / height,
                           .bx = double(config.bx),
                           .by = height,
                           .tallest = double(panels.tallest()),
                           .full = o.X * double(o.Y) / (tiles * config.bx * height)});
  if (s.p.gated) choice.us += s.pass;
  return choice;
}

// Calls consider(choice) for every cut in tiles of one extent that takes less than `limit`, which
// consider() may lower.
template <class Consider>
void for_each_cut(const Common& s, const Oriented& o, Choice choice, const double& limit,
                  const Consider& consider) {
  const Configuration& config = choice.config();
  const int tiles_x = ceil_div(o.X, config.bx);
  for (const auto [shape, multicast, in_parts] : CLUSTERS) {
    // A cluster does not reach beyond C by a whole CTA.
    if (shape.size() > 1 &&
        (shape.x() > std::max(tiles_x, 1) || shape.y() * config.shortest > o.Y + config.shortest))
      continue;
    const int clusters_x = (tiles_x + shape.x() - 1) >> shape.log_x;
    int whole[2] = {};  // the last height with K whole, by either step
    // Considers the least height with which at most so many clusters cover C. Parts fill one wave.
    const auto consider_cut = [&](int most, int parts, bool in_cluster) {
      if (parts > 1 && most < clusters_x) return;
      const int least = ceil_div(o.Y, std::max(most / std::max(clusters_x, 1), 1) << shape.log_y);
      int before = 0;
      for (const int log_step : {3, 6}) {
        const bool by_64 = log_step == 6;
        if (by_64 && o.y_k_major) continue;
        const int step = 1 << log_step;
        const int height =
            std::clamp((least + step - 1) >> log_step << log_step, config.shortest, config.by);
        if (height == before || (parts == 1 && height == whole[by_64])) continue;
        const int tiles_y = ceil_div(o.Y, height);
        const int clusters_y = (tiles_y + shape.y() - 1) >> shape.log_y;
        const int64_t clusters = int64_t{clusters_x} * clusters_y;
        if (clusters >= 1 << 20 || (parts > 1 && clusters > most)) continue;
        before = height;
        if (parts == 1) whole[by_64] = height;  // more waves often have the same
        choice.cut = {shape, multicast, height, clusters_x, clusters_y, parts, in_cluster};
        choice.us = cooperative_us(s, o, choice, tiles_x, tiles_y, limit);
        if (choice.us < limit) consider(choice);
      }
    };
    const bool alone = shape.size() == 1;
    // Rows of C off 16 bytes are stored by way of shared memory: where sums are added up.
    if (s.p.aligned_c || alone) {
      // The fewest waves, those of the tallest tiles, and up to MORE_WAVES more. The bound only keeps
      // an int: consider_cut leaves out so many clusters.
      const int at_a_time = s.at_a_time[shape.size()];
      const int64_t fewest = int64_t{clusters_x} * ceil_div(o.Y, config.by << shape.log_y);
      const int waves = int(std::clamp<int64_t>((fewest + at_a_time - 1) / at_a_time, 1, 1 << 20));
      for (int more = 0; more <= MORE_WAVES; ++more)
        consider_cut((waves + more) * at_a_time, 1, !s.p.aligned_c);
    }
    const int most_parts =
        in_parts && !s.p.invariant ? std::clamp(s.k_tiles / 2, 1, MOST_PARTS) : 1;
    for (int parts = 2; parts <= most_parts; ++parts) {
      consider_cut(s.at_a_time[shape.size()] / parts, parts, false);
      if (alone && parts <= MAX_CLUSTER) consider_cut(s.at_a_time[parts], parts, true);
    }
  }
}

// Calls consider(choice) for every legal choice in one configuration. consider() returns a limit:
// choices that take as long may be left out from then on. `limit`: the first one.
template <class Consider>
void for_each_choice(const Common& s, int index, double limit, const Consider& consider_one) {
  const Configuration& config = CONFIGURATIONS[index];
  if (config.schedule == Schedule::tiles) {
    consider_one(choose_tiles(s, index));
    return;
  }
  const double times = double(s.p.products) * s.p.launches;
  limit /= times;
  const auto consider = [&](Choice choice) {
    choice.us *= times;
    limit = consider_one(choice) / times;
  };
  for (const bool swapped : {false, true}) {
    if (!supports(config, s.p, swapped)) continue;
    const Oriented o(s.p, s.c, swapped);
    Choice choice{};
    choice.configuration = index;
    choice.swapped = swapped;
    choice.forwards = s.p.invariant;
    if (config.schedule == Schedule::row_panels)
      consider(choose_panels(s, o, choice));
    else
      for_each_cut(s, o, choice, limit, consider);
  }
}

}  // namespace

bool supports(const Configuration& config, const PlannedProblem& p, bool swapped) {
  if (config.schedule == Schedule::tiles) return !swapped;
  if (p.groups || (!p.aligned_c && (config.ping_pong() || p.invariant))) return false;
  const bool x_k_major = swapped ? p.b_k_major : p.a_k_major;
  const bool y_k_major = swapped ? p.a_k_major : p.b_k_major;
  // y along the operand that is K-major, so that a box of it has any height; else neither is.
  if (!y_k_major && (config.ping_pong() || x_k_major)) return false;
  return true;
}

Choice choose(const PlannedProblem& p, const Arch& arch, int configuration) {
  const Common s(p, arch);
  Choice best{};
  best.configuration = -1;
  best.us = NO_LIMIT;
  if (configuration < 0) best = choose_tiles(s, -1);
  for (int i = 0; i < (configuration < 0 ? FIRST_TILE : CONFIGURATION_COUNT); ++i)
    if (configuration < 0 || configuration == i)
      for_each_choice(s, i, best.us, [&](const Choice& choice) {
        if (best.configuration < 0 || choice.us < best.us) best = choice;
        return best.us;
      });
  return best;
}

int candidates(const PlannedProblem& p, const Arch& arch, Choice* choices, int room) {
  const Common s(p, arch);
  int count = 0;
  for (int i = 0; i < CONFIGURATION_COUNT; ++i)
    for_each_choice(s, i, NO_LIMIT, [&](const Choice& choice) {
      if (count < room) choices[count++] = choice;
      return NO_LIMIT;
    });
  return count;
}

std::string explain(const Choice& choice, int sms) {
  const Configuration& config = choice.config();
  const char* const what = choice.swapped ? "C^T" : "C";
  if (config.schedule == Schedule::tiles) return gemm::explain(choice.tiling);
  if (config.schedule == Schedule::row_panels) {
    RowPanelChoice panels{{config.bx, config.shortest, config.by}, choice.panels};
    return fmt::format("{} by turns, {} wide: {}", what, config.bx,
                       panels.why(sms, choice.swapped ? "row" : "column"));
  }
  const Rectangle& cut = choice.cut;
  std::string text = fmt::format("{} in {} tiles of {} x {}", what,
                                 cut.clusters() * cut.cluster.size(), config.bx, cut.height);
  if (cut.cluster.size() > 1)
    text += fmt::format(", clusters of {} x {}{}", cut.cluster.x(), cut.cluster.y(),
                        cut.multicast ? "" : " side by side");
  if (cut.parts > 1)
    text += fmt::format(", K in {} parts{}", cut.parts, cut.in_cluster ? ", a cluster a tile" : "");
  return text + fmt::format(", estimated {:.{}f} us", choice.us, choice.us < 100 ? 1 : 0);
}

}  // namespace gemm::engine
