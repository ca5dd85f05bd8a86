// For NVRTC: launching and registering is the host's work.
#include "device/launch.h"
