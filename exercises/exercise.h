// What an exercise includes in a rung's place: it hands its kernel to the grader, not to the ladder.
//
//   const Exercise exercise(launch<float>);
#pragma once

#include "grader/submission.h"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

struct Exercise {
  using Here = std::source_location;
  template <class T>
  static constexpr DType TYPE = sizeof(T) == 2 ? DType::f16 : DType::f32;

  // C = alpha * A * B + beta * C
  template <class T>
  explicit Exercise(void (*fn)(const GemmArgs<T>&, Stream), Here here = Here::current()) {
    add<T>(here, grading::Epilogue::none,
           [fn](const GemmArgs<T>& p, const void*, float) { fn(p, nullptr); });
  }
  // C = alpha * A * B + beta * C + bias, with bias[n] added to every element of column n
  template <class T>
  explicit Exercise(void (*fn)(const GemmArgs<T>&, const T* bias, Stream),
                    Here here = Here::current()) {
    add<T>(here, grading::Epilogue::bias, [fn](const GemmArgs<T>& p, const void* bias, float) {
      fn(p, static_cast<const T*>(bias), nullptr);
    });
  }
  // C = f(alpha * A * B + beta * C), f(x) = x >= 0 ? x : slope * x
  template <class T>
  explicit Exercise(void (*fn)(const GemmArgs<T>&, float slope, Stream),
                    Here here = Here::current()) {
    add<T>(here, grading::Epilogue::leaky_relu,
           [fn](const GemmArgs<T>& p, const void*, float slope) { fn(p, slope, nullptr); });
  }
  // A check of results on the host: how many of n elements are wrong
  explicit Exercise(int64_t (*fn)(const float* got, const double* want, const double* bound,
                                  int64_t n),
                    Here here = Here::current()) {
    grading::Submission submission;
    submission.file = here.file_name();
    submission.count_wrong = fn;
    grading::add(submission);
  }

 private:
  template <class T, class Run>
  static void add(Here here, grading::Epilogue epilogue, Run run) {
    const auto launch = [run](const GemmCall& c, const void* bias, float slope) {
      GemmArgs<T> args = typed<T>(c);
      if (args.epilogue.alpha == 0) args.K = 0;
      run(args, bias, slope);
    };
    grading::add({here.file_name(), TYPE<T>, epilogue, launch, {}});
  }
};

GEMM_BUILD_NAMESPACE_END
