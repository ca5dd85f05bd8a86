// The memory sink: every access to global memory must lie in a matrix that allows it, and every
// element of the result must be written once.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sim/findings.h"
#include "sim/inspect.h"

namespace gemm::sim {

// Who wrote each element of one matrix, over all blocks of a launch. The same for any order in
// which the blocks run.
class Writers {
 public:
  struct Writer {
    uint32_t block;  // + 1; 0: nobody
    uint16_t thread;
    uintptr_t pc;
  };

  // Throws std::bad_alloc. Memory is used only for the elements that are written.
  explicit Writers(const Matrix& matrix);
  ~Writers();
  Writers(const Writers&) = delete;

  // `atomic`: the element may be written before and after.
  void add(int64_t row, int64_t col, const Writer& writer, bool atomic);
  // Adds what is wrong with the matrix to `findings`; `complete`: all blocks ran.
  void check(const Matrix& matrix, bool complete, Findings& findings) const;
  // The thread of each element's first writer, row by row; -1: nobody.
  std::vector<int> threads() const;

 private:
  struct Element {
    Writer first, second;  // the two of the lowest blocks
  };
  int64_t cols_, elements_;
  Element* element_;
  std::atomic<bool> twice_ = false;
  static constexpr int LOCKS = 64;
  std::mutex locks_[LOCKS];
};

// Global memory as one OS thread sees it.
class GlobalMemory {
 public:
  struct Location {
    uint8_t matrix = 0;  // 1 + its index; 0: none
    int64_t row = 0, col = 0;
  };

  // `writers[i]`: of matrices[i], null where elements may be written any number of times.
  GlobalMemory(const std::vector<Matrix>& matrices, std::vector<std::unique_ptr<Writers>>& writers);

  // The matrix whose allocation holds the address.
  uint8_t find(uintptr_t address) const {
    for (size_t i = 0; i < extents_.size(); ++i)
      if (address - extents_[i].begin < extents_[i].bytes) return static_cast<uint8_t>(i + 1);
    return 0;
  }
  // An access in the allocation of `matrix`. `who` is called for the words that name the thread.
  template <class Who>
  void access(uint8_t matrix, uintptr_t address, int bytes, AccessKind kind, uintptr_t pc,
              int64_t block, int thread, Findings& findings, Who&& who);
  // "4 bytes, 96 bytes past the end of A (8 x 8)": of an access in no allocation, by the nearest.
  std::string nearest(uintptr_t address, int bytes) const;

  const std::vector<Written>& written() const { return written_; }  // by matrix

 private:
  struct Extent {
    uintptr_t begin;
    size_t bytes;
    uintptr_t first;  // element (0, 0)
    int64_t row_bytes, used_bytes;
  };

  void record_write(size_t matrix, int64_t row, int64_t byte_col, int bytes, bool atomic,
                    uintptr_t pc, int64_t block, int thread);
  bool initialised(size_t matrix, int64_t offset, int bytes) const;
  void set_initialised(size_t matrix, int64_t offset, int bytes);
  std::string outside(size_t matrix, int64_t offset, int bytes) const;

  const std::vector<Matrix>& matrices_;
  std::vector<std::unique_ptr<Writers>>& writers_;
  std::vector<Extent> extents_;
  std::vector<Written> written_;
};

const char* verb(AccessKind kind);  // "reads", ...

template <class Who>
void GlobalMemory::access(uint8_t matrix, uintptr_t address, int bytes, AccessKind kind,
                          uintptr_t pc, int64_t block, int thread, Findings& findings, Who&& who) {
  const size_t i = matrix - 1;
  const Matrix& m = matrices_[i];
  const Extent& e = extents_[i];
  const int64_t offset = static_cast<int64_t>(address - e.first);
  const int64_t row = e.row_bytes == 0 ? 0 : offset / e.row_bytes, col = offset - row * e.row_bytes;
  if (offset < 0 || row >= m.rows || col + bytes > e.used_bytes)
    return findings.add(Check::out_of_bounds, pc, matrix, block, [&] {
      return fmt::format("{{line}}: {} {} {}", who(), verb(kind), outside(i, offset, bytes));
    });
  const bool allowed = kind == AccessKind::read ? m.readable : m.writable;
  if (!allowed)
    findings.add(Check::forbidden, pc, matrix, block, [&] {
      return fmt::format("{{line}}: {} {} {}[{}][{}], {}", who(), verb(kind), m.name, row,
                         col / m.element,
                         m.writable ? "whose old values must not be used" : "which is an input");
    });
  if (m.initialised != nullptr) {
    if (kind != AccessKind::write && !initialised(i, offset, bytes))
      findings.add(Check::uninitialised, pc, matrix, block, [&] {
        return fmt::format("{{line}}: {} {} {} bytes from byte {} of {}, which nobody has written",
                           who(), verb(kind), bytes, offset, m.name);
      });
    if (kind != AccessKind::read) set_initialised(i, offset, bytes);
  }
  if (kind != AccessKind::read)
    record_write(i, row, col, bytes, kind == AccessKind::atomic, pc, block, thread);
}

}  // namespace gemm::sim
