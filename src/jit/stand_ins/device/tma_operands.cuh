// For NVRTC: copying operands for TMA is the host's work.
#include "device/major.h"
#include "device/launch.h"
