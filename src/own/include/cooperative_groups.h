// Not in the simulator, and the compiler says so at the line that includes it.
#error \
    "cooperative_groups.h: the simulator has no cooperative groups; it has __syncthreads, __syncwarp and shuffles"
