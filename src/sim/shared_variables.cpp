#include "sim/shared_variables.h"

#include <cxxabi.h>
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
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

std::vector<SharedVariable> read_symbols() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  const auto read = [&]<class T>(T& to, size_t at) {
    if (at + sizeof(T) > image.size()) return false;
    std::memcpy(&to, image.data() + at, sizeof(T));
    return true;
  };
  std::vector<SharedVariable> variables;
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
                             last_name(image.c_str() + names.sh_offset + symbol.st_name)});
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
