// Tile expressions: arithmetic on whole tiles that is computed when a tile is stored.
#pragma once

#include <cmath>
#include <concepts>
#include <type_traits>

#include "device/platform.h"
#include "epilogue.h"

GEMM_BUILD_NAMESPACE_BEGIN
namespace tile {

// Base of every tile expression. An expression of type E has E::Value, the type of an element, and
// E::get(part, x), which computes this thread's elements of one part of the tile.
// Nothing is computed earlier: a store asks for a part after the other, so that a tile of C and its
// temporaries never take registers for the whole tile.
struct Expression {};
// Base of those that hold registers: others refer to them and do not copy.
struct Stored : Expression {};

template <class E>
concept Tile = std::derived_from<std::remove_cvref_t<E>, Expression>;

// COUNT of a thread's elements, from its FIRST on. Layout says where in the tile they lie: element e
// at (row + Layout::row(e), col + Layout::col(e)), for this thread's (row, col).
template <class Layout_, int FIRST_, int COUNT_>
struct Part {
  using Layout = Layout_;
  static constexpr int FIRST = FIRST_, COUNT = COUNT_;
  int row, col;
  GEMM_DEVICE int row_of(int e) const { return row + Layout::row(FIRST + e); }
  GEMM_DEVICE int col_of(int e) const { return col + Layout::col(FIRST + e); }
};

// Calls work(part) for all parts of a tile, COUNT elements each.
template <class Layout, int COUNT, class Work, int FIRST = 0>
GEMM_DEVICE void for_each_part(const Work& work) {
  static_assert(Layout::SIZE % COUNT == 0 && COUNT % Layout::VEC == 0, "whole parts");
  work(Part<Layout, FIRST, COUNT>{Layout::first_row(), Layout::first_col()});
  if constexpr (FIRST + COUNT < Layout::SIZE)
    for_each_part<Layout, COUNT, Work, FIRST + COUNT>(work);
}

// A tile of one value.
template <class T>
struct Constant : Expression {
  using Value = T;
  T value;
  template <class Part>
  GEMM_DEVICE void get(const Part&, Value (&x)[Part::COUNT]) const {
#pragma unroll
    for (int e = 0; e < Part::COUNT; ++e) x[e] = value;
  }
};

// A tile in registers, by reference.
template <Tile E>
struct Reference : Expression {
  using Value = typename E::Value;
  const E* stored;
  template <class Part>
  GEMM_DEVICE void get(const Part& part, Value (&x)[Part::COUNT]) const {
    stored->get(part, x);
  }
};

// What an expression keeps of an operand.
template <class E>
GEMM_DEVICE auto operand(const E& e) {
  if constexpr (!Tile<E>)
    return Constant<E>{{}, e};
  else if constexpr (std::derived_from<E, Stored>)
    return Reference<E>{{}, &e};
  else
    return e;
}

// F::apply of each element.
template <class F, class E>
struct Unary : Expression {
  using Value = decltype(F::apply(typename E::Value{}));
  E e;
  template <class Part>
  GEMM_DEVICE void get(const Part& part, Value (&x)[Part::COUNT]) const {
    typename E::Value y[Part::COUNT];
    e.get(part, y);
#pragma unroll
    for (int i = 0; i < Part::COUNT; ++i) x[i] = F::apply(y[i]);
  }
};
template <class F, Tile E>
GEMM_DEVICE auto unary(const E& e) {
  return Unary<F, decltype(operand(e))>{{}, operand(e)};
}

// F::apply of each two elements.
template <class F, class L, class R>
struct Binary : Expression {
  using Value = decltype(F::apply(typename L::Value{}, typename R::Value{}));
  L left;
  R right;
  template <class Part>
  GEMM_DEVICE void get(const Part& part, Value (&x)[Part::COUNT]) const {
    typename L::Value l[Part::COUNT];
    typename R::Value r[Part::COUNT];
    left.get(part, l);
    right.get(part, r);
#pragma unroll
    for (int i = 0; i < Part::COUNT; ++i) x[i] = F::apply(l[i], r[i]);
  }
};
template <class F, class L, class R>
GEMM_DEVICE auto binary(const L& l, const R& r) {
  return Binary<F, decltype(operand(l)), decltype(operand(r))>{{}, operand(l), operand(r)};
}

#define GEMM_TILE_OPERATOR(NAME, OP)                                                  \
  struct NAME {                                                                       \
    template <class L, class R>                                                       \
    static GEMM_DEVICE auto apply(L l, R r) {                                         \
      return l OP r;                                                                  \
    }                                                                                 \
  };                                                                                  \
  template <class L, class R>                                                         \
  requires(Tile<L> || Tile<R>) GEMM_DEVICE auto operator OP(const L& l, const R& r) { \
    return binary<NAME>(l, r);                                                        \
  }
GEMM_TILE_OPERATOR(Add, +)
GEMM_TILE_OPERATOR(Subtract, -)
GEMM_TILE_OPERATOR(Multiply, *)
GEMM_TILE_OPERATOR(Divide, /)
GEMM_TILE_OPERATOR(Less, <)
GEMM_TILE_OPERATOR(GreaterEqual, >=)
GEMM_TILE_OPERATOR(And, &&)
#undef GEMM_TILE_OPERATOR

struct Exp {
  static GEMM_DEVICE float apply(float x) { return expf(x); }
};
template <Tile E>
GEMM_DEVICE auto exp(const E& e) {
  return unary<Exp>(e);
}

// condition ? a : b, element by element.
template <class C, class A, class B>
struct Where : Expression {
  using Value = std::common_type_t<typename A::Value, typename B::Value>;
  C condition;
  A a;
  B b;
  template <class Part>
  GEMM_DEVICE void get(const Part& part, Value (&x)[Part::COUNT]) const {
    typename C::Value c[Part::COUNT];
    typename A::Value y[Part::COUNT];
    typename B::Value z[Part::COUNT];
    condition.get(part, c);
    a.get(part, y);
    b.get(part, z);
#pragma unroll
    for (int i = 0; i < Part::COUNT; ++i) x[i] = c[i] ? y[i] : z[i];
  }
};
template <Tile C, class A, class B>
GEMM_DEVICE auto where(const C& condition, const A& a, const B& b) {
  return Where<decltype(operand(condition)), decltype(operand(a)), decltype(operand(b))>{
      {}, operand(condition), operand(a), operand(b)};
}

// An activation that is chosen at run time, once for all elements of a part.
template <class E>
struct Activated : Expression {
  using Value = float;
  E e;
  Activation activation;
  float slope;
  template <class Part>
  GEMM_DEVICE void get(const Part& part, float (&x)[Part::COUNT]) const {
    e.get(part, x);
    Epilogue{1, 0, activation, slope}.activate(x);
  }
};
template <Tile E>
GEMM_DEVICE auto activate(const E& e, Activation activation, float slope) {
  return Activated<decltype(operand(e))>{{}, operand(e), activation, slope};
}

// Activations by name: relu(e), leaky_relu(e), ...
#define ROW(name, slope, roundings)                                                 \
  struct Apply_##name {                                                             \
    static GEMM_DEVICE float apply(float x) { return activations::name(x, 0.01f); } \
  };                                                                                \
  template <Tile E>                                                                 \
  GEMM_DEVICE auto name(const E& e) {                                               \
    return unary<Apply_##name>(e);                                                  \
  }
GEMM_ACTIVATIONS(ROW)
#undef ROW

// The index of each element along an axis (0: rows, 1: columns), from `first` on.
template <int AXIS>
struct Index : Expression {
  using Value = int;
  int first;
  template <class Part>
  GEMM_DEVICE void get(const Part& part, int (&x)[Part::COUNT]) const {
#pragma unroll
    for (int e = 0; e < Part::COUNT; ++e)
      x[e] = first + (AXIS == 0 ? part.row_of(e) : part.col_of(e));
  }
};
template <int AXIS>
GEMM_DEVICE Index<AXIS> arange(int first = 0) {
  return {{}, first};
}

}  // namespace tile
GEMM_BUILD_NAMESPACE_END
