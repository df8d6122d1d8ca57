// Passes on demand, for programs that a script measures interleaved: bench/model/llama_cpp.py. The
// standard library only, because llama_pass.cc is built without the rest.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>

namespace tandem::bench {

// Says "ready", then for each line "CONTEXT ROWS" runs pass(context, rows) and prints its time in
// microseconds. `prepare` does what is not a part of the time. Returns at the end of the input.
inline void ServeTurns(const std::function<void(int context)>& prepare,
                       const std::function<void(int context, int rows)>& pass) {
  std::printf("ready\n");
  std::fflush(stdout);
  int context = 0;
  int rows = 0;
  while (std::scanf("%d %d", &context, &rows) == 2) {
    prepare(context);
    const auto start = std::chrono::steady_clock::now();
    pass(context, rows);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    std::printf("%.1f\n", time.count());
    std::fflush(stdout);
  }
}

}  // namespace tandem::bench
