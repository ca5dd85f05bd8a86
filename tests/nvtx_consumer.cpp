// An NVTX consumer, as a profiler is one: writes every range that a program opens or closes. A
// program loads it where NVTX_INJECTION64_PATH names it; NVTX_RECORD names the file, with a line an
// event: "push <domain> <range>" or "pop <domain>". "" is NVTX's default domain.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace {

std::mutex mutex;
std::FILE* record = nullptr;
std::map<nvtxDomainHandle_t, std::string> domains;
int depth = 0;

int push(nvtxDomainHandle_t domain, const char* name) {
  const std::lock_guard lock(mutex);
  std::fprintf(record, "push %s %s\n", domains[domain].c_str(), name);
  return depth++;
}
int pop(nvtxDomainHandle_t domain) {
  const std::lock_guard lock(mutex);
  std::fprintf(record, "pop %s\n", domains[domain].c_str());
  std::fflush(record);
  return --depth;
}

nvtxDomainHandle_t create_domain(const char* name) {
  const std::lock_guard lock(mutex);
  const auto handle = reinterpret_cast<nvtxDomainHandle_t>(domains.size() + 1);
  domains[handle] = name;
  return handle;
}
int push_in_domain(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  return push(domain, attributes->message.ascii);
}
int push_by_attributes(const nvtxEventAttributes_t* attributes) {
  return push(nullptr, attributes->message.ascii);
}
int push_by_name(const char* name) { return push(nullptr, name); }
int pop_default() { return pop(nullptr); }

template <class Function>
NvtxFunctionPointer pointer(Function* function) {
  return reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  const char* const file = std::getenv("NVTX_RECORD");
  if (file == nullptr || (record = std::fopen(file, "w")) == nullptr) return 0;
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr) return 0;
  NvtxFunctionTable core = nullptr, core2 = nullptr;
  unsigned size = 0;
  if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size) ||
      size <= NVTX_CBID_CORE_RangePop ||
      !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &size) ||
      size <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  *core[NVTX_CBID_CORE_RangePushEx] = pointer(push_by_attributes);
  *core[NVTX_CBID_CORE_RangePushA] = pointer(push_by_name);
  *core[NVTX_CBID_CORE_RangePop] = pointer(pop_default);
  *core2[NVTX_CBID_CORE2_DomainCreateA] = pointer(create_domain);
  *core2[NVTX_CBID_CORE2_DomainRangePushEx] = pointer(push_in_domain);
  *core2[NVTX_CBID_CORE2_DomainRangePop] = pointer(pop);
  return 1;
}
