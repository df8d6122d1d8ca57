// The buckets of all our histograms, so that those of two services can be laid over each other.
#pragma once

#include <vector>

namespace tandem::telemetry {

// Seconds, from 10 µs (a message within a machine, a draft's pass) to a minute (a long answer).
inline std::vector<double> SecondsBuckets() {
  return {10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3,
          50e-3, 0.1,   0.25,  0.5,    1,      2.5,    5,    10,     30,   60};
}

// Rows, sequences, tokens, samples: powers of two.
inline std::vector<double> CountBuckets() {
  return {1,   2,    4,    8,    16,   32,    64,    128,   256,
          512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};
}

}  // namespace tandem::telemetry
