// Files of a user's own in a gemm_bench that holds them, for --inspect: their forms become rungs.
#include "own/forms.h"
#include "own/launch.h"
#include "own/rungs.h"

namespace gemm::own {

Registration::Registration(const char* file, std::vector<Form> forms) {
  for (const Form& form : forms)
    add_rung(file, {form.dtype, form.ld, form.scalars, form.stream}, Backend::sim_traced,
             [call = form.call](const GemmCall& c) {
               begin_call(nullptr);
               call(c);
             });
}

}  // namespace gemm::own
