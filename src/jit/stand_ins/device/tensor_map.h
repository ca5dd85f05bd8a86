// For NVRTC: making a tensor map is the host's work.
