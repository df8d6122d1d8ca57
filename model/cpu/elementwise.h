// The arithmetic of a pass that is done number by number: layer norms, norms of heads, activations
// other than a SiLU gate.
//
// It is compiled once, for every instruction set, and like all our code without contraction into
// fused operations. So all tables of kernels give the same bits (kernels.h). exp is the kernels'.
//
// Pointers are to float32; `out` may be `x`. Thread safety: pure functions of their arguments.
#pragma once

#include "model/cpu/kernels.h"

namespace tandem::model::cpu {

// out = weight · (x - mean(x)) / sqrt(variance(x) + epsilon) + bias, of n values.
void LayerNorm(const float* x, const float* weight, const float* bias, int n, float epsilon,
               float* out);

// out = weight · x / sqrt(mean(x²) + epsilon), of n values. Unlike Kernels::rms_norm it reads
// nothing behind them.
void RmsNorm(const float* x, const float* weight, int n, float epsilon, float* out);

// out[i] of x[i], for n values.
void Silu(const Kernels& kernels, const float* x, int n, float* out);
void GeluTanh(const Kernels& kernels, const float* x, int n, float* out);
void Gelu(const Kernels& kernels, const float* x, int n, float* out);  // off by at most 2e-7 · |x|
void Relu(const float* x, int n, float* out);

}  // namespace tandem::model::cpu
