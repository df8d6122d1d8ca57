// exp and log from additions, multiplications and one division in a fixed order: the same bits on
// every machine and in every vector width. (The C library chooses its own by the processor, and
// they differ in the last bit.) Compiled without contraction into fused operations.
//
// Thread safety: pure functions.
#pragma once

#include "absl/types/span.h"
#include "common/sampling/elementary_formulas.h"

namespace tandem::sampling {

// values[i] = exp((logits[i] - largest) * scale), and their sum, in an order that depends on the
// size only. scale > 0; logits at most `largest`, which is finite; -infinity gives 0. Relative
// error below 1e-15 beside that of the rounded argument. 0 where the argument is below
// kMinExponent.
double ExpAll(absl::Span<const float> logits, float largest, double scale,
              absl::Span<double> values);

// Multiplies all values, each at least 0, by `factor`. True when one of them is 0.
bool ScaleAll(double factor, absl::Span<double> values);

// exp of one argument, at most 0, as in ExpAll.
double Exp(double x);

// log(y) for y above 0, normal and finite. Relative error below 1e-15, near 1 too.
double Log(double y);

}  // namespace tandem::sampling
