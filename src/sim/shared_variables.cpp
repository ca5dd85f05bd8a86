#include "sim/shared_variables.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace gemm::sim {

namespace {

// "(anonymous namespace)::gemm_v02<float>(...)::sA" -> "sA"
std::string last_name(const char* mangled) {
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr), &std::free);
  const std::string name = demangled ? demangled.get() : mangled;
  const size_t colon = name.rfind("::");
  return colon == name.npos ? name : name.substr(colon + 2);
}

// A file in memory: of a program with debug information only the pages that are looked at. Empty if
// it cannot be read.
struct Image {
  const char* data = nullptr;
  size_t size = 0;

  explicit Image(const char* path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (file < 0) return;
    if (fstat(file, &about) == 0) {
      void* const p = mmap(nullptr, about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
      if (p != MAP_FAILED) data = static_cast<char*>(p), size = about.st_size;
    }
    close(file);
  }
  ~Image() {
    if (data != nullptr) munmap(const_cast<char*>(data), size);
  }
  Image(const Image&) = delete;
};

// The file of the program, or of the shared library that this is linked into.
std::string own_file() {
  std::string file = "/proc/self/exe";
  dl_iterate_phdr(
      [](dl_phdr_info* module, size_t, void* result) {
        const auto here = reinterpret_cast<ElfW(Addr)>(&last_name);
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = module->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD ||
              here - module->dlpi_addr - segment.p_vaddr >= segment.p_memsz)
            continue;
          // The program itself has no name.
          if (module->dlpi_name[0] != 0) *static_cast<std::string*>(result) = module->dlpi_name;
          return 1;
        }
        return 0;
      },
      &file);
  return file;
}

std::vector<SharedVariable> read_symbols() {
  std::vector<SharedVariable> variables;
  const Image image(own_file().c_str());
  const auto read = [&]<class T>(T& to, size_t at) {
    if (at + sizeof(T) > image.size) return false;
    std::memcpy(&to, image.data + at, sizeof(T));
    return true;
  };
  Elf64_Ehdr header;
  if (!read(header, 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return variables;
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section, names;
    if (!read(section, header.e_shoff + i * sizeof section) || section.sh_type != SHT_SYMTAB ||
        !read(names, header.e_shoff + section.sh_link * sizeof names))
      continue;
    Elf64_Sym symbol;
    for (size_t at = 0; at < section.sh_size && read(symbol, section.sh_offset + at);
         at += sizeof symbol)
      if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS && symbol.st_size != 0)
        variables.push_back({symbol.st_value, symbol.st_value + symbol.st_size,
                             last_name(image.data + names.sh_offset + symbol.st_name)});
  }
  std::sort(variables.begin(), variables.end(),
            [](const SharedVariable& a, const SharedVariable& b) { return a.begin < b.begin; });
  return variables;
}

}  // namespace

const std::vector<SharedVariable>& shared_variables() {
  static const std::vector<SharedVariable> variables = read_symbols();
  return variables;
}

}  // namespace gemm::sim
