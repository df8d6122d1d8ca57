// Products in whole numbers, as model/cpu/int8.h defines them, to the bit.
//
// The sums are exact, so the rows beside a row, the order and the number of threads do not show in
// them; and the sums of a processor are those of a card.
#pragma once

#include <ATen/core/Tensor.h>

namespace tandem::torch {

// Rows of numbers: each is its row's scale times an integer.
struct Int8Rows {
  at::Tensor integers;  // [rows, columns rounded up to 8], int8
  at::Tensor scales;    // [rows], fp32
};

// Of fp32 [rows, columns].
Int8Rows Quantized(const at::Tensor& x);

// Columns in whole groups of 8.
int64_t PaddedColumnCount(int64_t columns);

// As many columns of zeros as make whole groups of 8, as Quantized adds them.
at::Tensor PaddedColumns(const at::Tensor& integers);

// As many rows of zeros as make whole groups of 8: CUDA's product takes no others.
at::Tensor PaddedRows(const at::Tensor& integers);

// int32 [rows, outputs] times the scales of both: fp32 [rows, scales of outputs].
at::Tensor Scaled(const at::Tensor& sums, const at::Tensor& row_scales,
                  const at::Tensor& output_scales);

// Whether at::_int_mm sums whole numbers. Where a processor lacks AVX-512 VNNI, LibTorch may add in
// 16 bits, which do not hold the largest sums.
bool Int8SumsAreExact(int rows, at::Device device);

}  // namespace tandem::torch
