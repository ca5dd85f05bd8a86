// What a student's file may not be, whatever it computes.
#pragma once

#include <string>

namespace gemm::grading {

// Throws Ended where FOLDER/work.cu is solution.cu copied, or includes another file than the
// standard's, the ladder's device code and what exercises include. Of no such file it says nothing.
void refuse_source(const std::string& folder);

}  // namespace gemm::grading
