// What exercises include is compiled once, for all of them: exercises/CMakeLists.txt.
#include "exercise.h"
