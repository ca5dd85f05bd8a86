// Results on disk that nothing can spoil: not a full disk, a crash or SIGKILL.
#pragma once

#include <string>
#include <vector>

namespace gemm {

// A file of results that grows while they are measured. Until the last of them they stand in
// FILE.partial, which at every moment holds one whole text: the next is written beside it and takes
// its name in one step. FILE itself is touched once, by finish(). A symbolic link is followed.
//
// Devices, FIFOs and open descriptors (/dev/null, /dev/stdout) are written to, by finish() alone,
// and stay what they are.
class OutputFile {
 public:
  // Creates nothing that stays. Throws UsageError when `path` cannot be written; `option` is what
  // the user gave it with.
  OutputFile(const std::string& option, const std::string& path);

  // Keeps what there is so far, in FILE.partial. Throws OutputError.
  void save(const std::string& text);
  // Writes FILE; FILE.partial goes. Throws OutputError.
  void finish(const std::string& text);
  // What there is so far and no more will come. Throws OutputError.
  void abandon(const std::string& text) { direct_ ? finish(text) : save(text); }

  // The file that holds results by now; empty: none does.
  const std::string& kept_in() const { return kept_in_; }
  const std::string& partial() const { return partial_; }
  bool direct() const { return direct_; }

 private:
  std::string fresh() const { return partial_ + ".tmp"; }
  [[noreturn]] void fail() const;  // by errno

  std::string path_, partial_, kept_in_, saved_;
  bool direct_ = false;
};

// A file as the command line names it. The empty path is none.
struct NamedFile {
  std::string option, path;
  bool written;
};
// Throws UsageError where what is written would spoil another file of these, or be spoilt by it.
// Devices and FIFOs are not spoilt.
void refuse_one_file_for_two(const std::vector<NamedFile>& files);

// Held by one process and thread at a time, from construction to destruction: PATH.lock, which stays.
class FileLock {
 public:
  // Waits for it. Throws OutputError ("cannot lock WHAT 'PATH'").
  FileLock(const std::string& what, const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;

 private:
  int fd_;
};

// Writes `text` to `path` in one step: a reader sees the old file or the new one, and a failure
// leaves the old one. `path` is a regular file or none yet. Throws OutputError ("cannot write WHAT
// 'PATH'").
void replace_file(const std::string& what, const std::string& path, const std::string& text);

// All that a regular file or FIFO holds. Throws UsageError ("cannot read WHAT 'PATH'", or that it
// is larger than `most` bytes, as /dev/zero is).
std::string read_file(const std::string& what, const std::string& path, size_t most);

}  // namespace gemm
