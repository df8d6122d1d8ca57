// What a kernel became on a card: instructions of a cubin as nvdisasm prints them, and how well its
// loops hide the time that memory takes. Needs no card.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tandem::kernels {

// A stretch of code without a branch or a label, in a loop.
struct SassBlock {
  size_t wide_loads = 0;  // of 16 bytes
  size_t products = 0;    // fused with a sum, of float32
  // The most loads from global memory that are under way at once: until the first instruction that
  // needs one of their results. Of these, those of 16 bytes.
  size_t in_flight = 0;
  size_t wide_in_flight = 0;
};

struct SassKernel {
  std::string name;
  size_t instructions = 0;
  // Of tensor cores, in 16 bits, for each wide load: the most in an innermost loop around these.
  size_t tensor_products_per_wide_load = 0;
  size_t spills = 0;  // reads and writes of local memory, in the innermost loops around wide loads
  size_t all_spills = 0;  // anywhere
  // Of local memory, at a place that is not known when a kernel is compiled: an array that cannot
  // lie in registers.
  size_t indexed = 0;
  std::vector<SassBlock> in_loops;

  // Stretches in loops with at least so many loads of 16 bytes in flight, or of any size.
  size_t WideStretches(size_t in_flight) const;
  size_t Stretches(size_t in_flight) const;
  // The most products that a stretch makes per load of 16 bytes.
  size_t ProductsPerWideLoad() const;
};

// `text`: of nvdisasm -c.
std::vector<SassKernel> ReadSass(absl::string_view text);

}  // namespace tandem::kernels
