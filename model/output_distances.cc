#include "model/output_distances.h"

#include <cmath>
#include <cstdint>

#include "model/cpu/packed_matrix.h"
#include "model/files/packed_tensor.h"
#include "model/files/tensor_type.h"
#include "model/packed_linear.h"

namespace tandem::model {

std::vector<double> OutputDistances(const ModelFiles& files) {
  const TensorView& output = *files.tensors.output;
  const TensorView* const scales = files.tensors.output_scale;
  const cpu::SourceType type = SourceTypeOf(output);
  const int64_t rows = output.shape[0], columns = output.shape[1];
  const size_t row_bytes = output.bytes / static_cast<size_t>(rows);
  const cpu::Buffer unpacked = output.packed == nullptr ? cpu::Buffer() : Unpack(output);
  const void* const begin = output.packed == nullptr ? output.data : unpacked.data();
  const auto for_each = [&](int64_t row, auto&& use) {
    const char* const data = static_cast<const char*>(begin) + static_cast<size_t>(row) * row_bytes;
    const double scale =
        scales == nullptr ? 1 : cpu::ReadValue(scales->data, SourceTypeOf(*scales), row);
    for (int64_t i = 0; i < columns; ++i) use(i, scale * cpu::ReadValue(data, type, i));
  };
  std::vector<double> mean(static_cast<size_t>(columns));
  for (int64_t row = 0; row < rows; ++row) {
    for_each(row, [&](int64_t i, double value) { mean[static_cast<size_t>(i)] += value; });
  }
  for (double& value : mean) value /= static_cast<double>(rows);
  std::vector<double> distances(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for_each(row, [&](int64_t i, double value) {
      const double difference = value - mean[static_cast<size_t>(i)];
      sum += difference * difference;
    });
    distances[static_cast<size_t>(row)] = std::sqrt(sum);
  }
  return distances;
}

}  // namespace tandem::model
