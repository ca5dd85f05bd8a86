#include "harness/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "harness/errors.h"
#include "harness/text.h"

namespace gemm {
namespace fs = std::filesystem;
namespace {

// Writes all of `text` to `fd` and closes it; false with errno when any of that fails.
bool write_all(int fd, const std::string& text, bool sync) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = n == 0 ? ENOSPC : errno;
      close(fd);
      errno = error;
      return false;
    }
    done += static_cast<size_t>(n);
  }
  const bool synced = !sync || fsync(fd) == 0;
  const int error = errno;
  if (close(fd) != 0) return false;
  errno = error;
  return synced;
}

// Writes `fresh` and gives it the name `path`; false with errno, nothing changed, otherwise.
bool replace(const std::string& path, const std::string& fresh, const std::string& text,
             bool sync) {
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd >= 0 && write_all(fd, text, sync) && std::rename(fresh.c_str(), path.c_str()) == 0)
    return true;
  const int error = errno;
  unlink(fresh.c_str());
  errno = error;
  return false;
}

// The file that `path` means, links followed up to an open descriptor (/dev/stdout: /proc/N/fd/1).
fs::path real_path(fs::path path) {
  for (int links = 0; links < 40; ++links) {
    const fs::path folder = path.parent_path();
    path = fs::canonical(folder.empty() ? "." : folder) / path.filename();
    if (path.string().rfind("/proc/", 0) == 0 || !fs::is_symlink(fs::symlink_status(path))) break;
    const fs::path target = fs::read_symlink(path);
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

// The number of the open descriptor that /proc/N/fd/7 stands for; -1: no such thing.
int descriptor(const std::string& path) {
  const std::string own = fmt::format("/proc/{}/fd/", getpid());
  if (path.rfind(own, 0) != 0) return -1;
  const std::string number = path.substr(own.size());
  if (number.empty() || number.size() > 6) return -1;
  return number.find_first_not_of("0123456789") == std::string::npos ? std::stoi(number) : -1;
}

}  // namespace

void refuse_one_file_for_two(const std::vector<NamedFile>& files) {
  const auto same = [](const std::string& a, const std::string& b) {
    std::error_code none;
    if (fs::exists(a, none) && !fs::is_regular_file(a, none)) return false;
    if (fs::equivalent(a, b, none)) return true;  // hard links, too
    const fs::path real_a = fs::weakly_canonical(fs::absolute(a, none), none);
    const fs::path real_b = fs::weakly_canonical(fs::absolute(b, none), none);
    return !real_a.empty() && real_a == real_b;  // empty: a name that no file can have
  };
  for (size_t i = 0; i < files.size(); ++i)
    for (size_t j = 0; j < files.size(); ++j) {
      const NamedFile &out = files[i], &other = files[j];
      if (i == j || !out.written || out.path.empty() || other.path.empty()) continue;
      for (const char* beside : {"", ".partial", ".partial.tmp", ".lock"})
        if (same(out.path + beside, other.path))
          throw UsageError(fmt::format("{} '{}' would overwrite {} '{}': want another file",
                                       out.option, printable(out.path), other.option,
                                       printable(other.path)));
    }
}

OutputFile::OutputFile(const std::string& option, const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError(
        fmt::format("cannot write '{}': {}; {} wants a file in an existing, writable folder",
                    printable(path), why, option));
  };
  try {
    if (path == "-") refuse("/dev/stdout is standard output, ./- a file of this name");
    if (path.empty() || fs::path(path).filename().empty()) refuse("it names no file");
    path_ = real_path(path).string();
    const fs::file_status status = fs::status(path_);
    if (fs::is_directory(status)) refuse("it is a folder");
    direct_ = path_.rfind("/proc/", 0) == 0 || (fs::exists(status) && !fs::is_regular_file(status));
    if (fs::exists(status) && access(path_.c_str(), W_OK) != 0) refuse(std::strerror(errno));
  } catch (const fs::filesystem_error& e) {
    refuse(e.code().message());
  }
  if (direct_) return;
  partial_ = path_ + ".partial";
  // Whether files can be made there: one is.
  const int fd = open(fresh().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) refuse(std::strerror(errno));
  close(fd);
  unlink(fresh().c_str());
  if (fs::is_directory(fs::status(partial_))) refuse(partial_ + " is a folder");
}

void OutputFile::save(const std::string& text) {
  if (direct_ || (!kept_in_.empty() && text == saved_)) return;
  if (!replace(partial_, fresh(), text, false)) fail();
  kept_in_ = partial_;
  saved_ = text;
}

void OutputFile::finish(const std::string& text) {
  if (direct_) {
    std::fflush(stdout);
    const int number = descriptor(path_);
    const int fd = number >= 0 ? dup(number) : open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || !write_all(fd, text, false)) fail();
    return;
  }
  save(text);
  const int fd = open(partial_.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0 || !write_all(fd, "", true)) fail();  // on disk before the old file goes
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail();
  kept_in_ = path_;
}

void OutputFile::fail() const {
  const std::string why = std::strerror(errno);
  throw OutputError(fmt::format(
      "cannot write '{}': {}; {}", printable(path_, 1000), why,
      kept_in_.empty() ? "no results could be kept"
                       : "the results until then are in '" + printable(kept_in_, 1000) + "'"));
}

FileLock::FileLock(const std::string& what, const std::string& path)
    : fd_(open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  int locked = fd_ < 0 ? -1 : flock(fd_, LOCK_EX);
  while (fd_ >= 0 && locked != 0 && errno == EINTR) locked = flock(fd_, LOCK_EX);
  if (locked == 0) return;
  const int error = errno;
  if (fd_ >= 0) close(fd_);
  throw OutputError(fmt::format("cannot lock {} '{}': {}; it was left as it is", what,
                                printable(path, 1000), std::strerror(error)));
}

FileLock::~FileLock() { close(fd_); }

void replace_file(const std::string& what, const std::string& path, const std::string& text) {
  if (!replace(path, fmt::format("{}.{}.tmp", path, getpid()), text, true))
    throw OutputError(fmt::format("cannot write {} '{}': {}; it was left as it is", what,
                                  printable(path, 1000), std::strerror(errno)));
}

std::string read_file(const std::string& what, const std::string& path, size_t most) {
  std::error_code ignored;
  std::ifstream in(path, std::ios::binary);
  if (!in || fs::is_directory(path, ignored))
    throw UsageError(fmt::format("cannot read {} '{}'", what, printable(path)));
  std::string text;
  char buffer[1 << 16];
  while (text.size() <= most && (in.read(buffer, sizeof buffer), in.gcount() > 0))
    text.append(buffer, static_cast<size_t>(in.gcount()));
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // the mark that some editors begin with
  if (in.bad()) throw UsageError(fmt::format("cannot read {} '{}'", what, printable(path)));
  if (text.size() > most)
    throw UsageError(fmt::format("{} '{}' is too large: at most {} bytes are read", what,
                                 printable(path), most));
  return text;
}

}  // namespace gemm
