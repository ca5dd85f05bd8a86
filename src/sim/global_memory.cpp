#include "sim/global_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

namespace gemm::sim {

Writers::Writers(const Matrix& matrix) : cols_(matrix.cols), elements_(matrix.rows * matrix.cols) {
  void* p = mmap(nullptr, std::max<size_t>(elements_ * sizeof(Element), 1), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  element_ = static_cast<Element*>(p);
}

Writers::~Writers() { munmap(element_, std::max<size_t>(elements_ * sizeof(Element), 1)); }

void Writers::add(int64_t row, int64_t col, const Writer& writer, bool atomic) {
  Element& e = element_[row * cols_ + col];
  std::lock_guard lock(locks_[row % LOCKS]);
  if (e.first.block == 0) {
    e.first = writer;
    return;
  }
  if (atomic) return;
  twice_ = true;
  if (writer.block < e.first.block)
    e.second = std::exchange(e.first, writer);
  else if (e.second.block == 0 || writer.block < e.second.block)
    e.second = writer;
}

std::vector<int> Writers::threads() const {
  std::vector<int> threads(elements_, -1);
  for (int64_t i = 0; i < elements_; ++i)
    if (element_[i].first.block != 0) threads[i] = element_[i].first.thread;
  return threads;
}

void Writers::check(const Matrix& matrix, bool complete, Findings& findings) const {
  if (!complete && !twice_) return;
  for (int64_t i = 0; i < elements_; ++i) {
    const Element& e = element_[i];
    const auto name = [&] { return fmt::format("{}[{}][{}]", matrix.name, i / cols_, i % cols_); };
    if (e.second.block != 0)
      findings.add(Check::written_twice, e.second.pc, e.first.pc, e.second.block - 1, [&] {
        return fmt::format(
            "{{line}}: thread {} of block {} writes {}, which thread {} of block {} has written at "
            "{{other}}",
            e.second.thread, e.second.block - 1, name(), e.first.thread, e.first.block - 1);
      });
    else if (complete && e.first.block == 0)
      findings.add(Check::unwritten, 0, 0, 0,
                   [&] { return fmt::format("no thread writes {}", name()); });
  }
}

// ------------------------------------------------------------------------------------------------

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::read:
      return "reads";
    case AccessKind::write:
      return "writes";
    case AccessKind::atomic:
      return "updates";
  }
  return "?";
}

GlobalMemory::GlobalMemory(const std::vector<Matrix>& matrices,
                           std::vector<std::unique_ptr<Writers>>& writers)
    : matrices_(matrices), writers_(writers), written_(matrices.size()) {
  const auto address = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
  for (const Matrix& m : matrices)
    extents_.push_back({address(m.allocation), m.allocation_bytes, address(m.first),
                        m.ld * m.element, m.cols * m.element});
}

void GlobalMemory::record_write(size_t matrix, int64_t row, int64_t byte_col, int bytes,
                                bool atomic, uintptr_t pc, int64_t block, int thread) {
  const int64_t begin = byte_col / matrices_[matrix].element,
                end = (byte_col + bytes - 1) / matrices_[matrix].element + 1;
  Written& w = written_[matrix];
  w.row_begin = std::min(w.row_begin, row), w.row_end = std::max(w.row_end, row + 1);
  w.col_begin = std::min(w.col_begin, begin), w.col_end = std::max(w.col_end, end);
  w.elements += end - begin;
  if (writers_[matrix] == nullptr) return;
  for (int64_t col = begin; col < end; ++col)
    writers_[matrix]->add(
        row, col, {static_cast<uint32_t>(block + 1), static_cast<uint16_t>(thread), pc}, atomic);
}

// Blocks on other OS threads write at the same time.
bool GlobalMemory::initialised(size_t matrix, int64_t offset, int bytes) const {
  for (int64_t i = offset; i < offset + bytes; ++i)
    if (std::atomic_ref(matrices_[matrix].initialised[i]).load(std::memory_order_relaxed) == 0)
      return false;
  return true;
}

void GlobalMemory::set_initialised(size_t matrix, int64_t offset, int bytes) {
  for (int64_t i = offset; i < offset + bytes; ++i)
    std::atomic_ref(matrices_[matrix].initialised[i]).store(1, std::memory_order_relaxed);
}

// `offset`: in bytes from element (0, 0).
std::string GlobalMemory::outside(size_t matrix, int64_t offset, int bytes) const {
  const Matrix& m = matrices_[matrix];
  const int64_t row_bytes = extents_[matrix].row_bytes, used = extents_[matrix].used_bytes;
  const int64_t end = m.rows == 0 ? 0 : (m.rows - 1) * row_bytes + used;
  if (offset < 0)
    return fmt::format("{} bytes, {} bytes before the first of {}", bytes, -offset, m.name);
  if (offset >= end)
    return fmt::format("{} bytes, {} bytes past the end of {} ({} x {})", bytes, offset - end,
                       m.name, m.rows, m.cols);
  return fmt::format("{} bytes at {}[{}][{}], but its rows have {} columns", bytes, m.name,
                     offset / row_bytes, offset % row_bytes / m.element, m.cols);
}

std::string GlobalMemory::nearest(uintptr_t address, int bytes) const {
  size_t best = 0;
  uintptr_t distance = ~uintptr_t{0};
  for (size_t i = 0; i < extents_.size(); ++i) {
    const Extent& e = extents_[i];
    const uintptr_t d = address < e.begin ? e.begin - address : address - e.begin - e.bytes;
    if (d < distance) distance = d, best = i;
  }
  return extents_.empty()
             ? "in no matrix"
             : outside(best, static_cast<int64_t>(address - extents_[best].first), bytes);
}

}  // namespace gemm::sim
