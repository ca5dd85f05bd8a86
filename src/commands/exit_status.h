// How the program ends, for scripts. --help says the same.
#pragma once

namespace gemm {

enum ExitStatus {
  EXIT_VERIFIED = 0,  // all that ran is right, and something ran
  EXIT_WRONG = 1,     // a result was wrong, whatever else happened
  EXIT_USAGE = 2,     // bad input, or nothing to do: one line says what is allowed
  EXIT_FAILED = 3,    // the machine or the program failed; what was measured until then is kept
};

}  // namespace gemm
