// For NVRTC: copying operands for TMA is the host's work.
#include "device/launch.h"
#include "device/major.h"
