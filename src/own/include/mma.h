// Not in the simulator, and the compiler says so at the line that includes it.
#error \
    "mma.h: the simulator has no nvcuda::wmma; it runs CUDA C++, and the functions of labs/hopper.h"
