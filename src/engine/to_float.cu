// The engine's kernels whose results are float: equal tiles, one configuration.
#include "engine/launch.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace engine_device {

template <class T>
void launch_to_float(const GemmArgs<T, T, float>& p, const Arch& arch, Stream stream) {
  launch<GemmArgs<T, T, float>, TO_FLOAT>(p, {}, arch, stream);
}

template void launch_to_float(const GemmArgs<half, half, float>&, const Arch&, Stream);
#if GEMM_SECOND_TYPES
template void launch_to_float(const GemmArgs<bf16, bf16, float>&, const Arch&, Stream);
#endif

}  // namespace engine_device
GEMM_BUILD_NAMESPACE_END
