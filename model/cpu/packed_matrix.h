// A weight matrix in the layout that Kernels::multiply reads.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/cpu/block_formats.h"
#include "model/cpu/buffer.h"
#include "model/cpu/grouped.h"
#include "model/cpu/int8.h"
#include "model/cpu/kernels.h"

namespace tandem::model::cpu {

// Immutable once made. bf16 and fp16 are kept as they are (half the memory to read) and widened in
// registers: widening is exact, so the results are the same bits as if stored as float32. int8 has
// a scale for each column, and takes activations as int8 too; so do the types by group, with a
// scale for each group of inputs.
class PackedMatrix {
 public:
  enum class Place {
    kMemory,  // packed once
    // Not copied: each product packs the panels that it needs from their rows, which must stay
    // where they are, and be of values that `type` holds exactly. The results are the same bits.
    kFile,
  };

  PackedMatrix() = default;

  // Output column c (0 <= c < columns) of the packed matrix is row(c); columns are padded with
  // zeros to whole panels. Storage as fp32 takes any row, exactly; as any other type any row,
  // rounded (half.h, int8.h, grouped.h). int8: k <= kMaxInt8Inputs; integers and scale of a row
  // that is int8 are kept as they are, and such a row is stored as int8 only. By group rows of
  // blocks keep their own integers where they can (pack_groups.h).
  PackedMatrix(int columns, int k, WeightType type, std::function<SourceRow(int)> row,
               Place place = Place::kMemory);

  int columns() const { return columns_; }
  int k() const { return k_; }
  int panels() const { return panels_; }
  WeightType type() const { return type_; }
  size_t bytes() const { return data_.bytes() + scales_.bytes(); }  // in memory
  bool in_file() const { return row_ != nullptr; }
  bool exact() const { return exact_; }  // every value is its source's

  // Column `column` as float32 [k]; how a tied embedding is read.
  void ReadColumn(int column, float* out) const;

  // out[rows, …] = x·W of panels first to first + count; `out` is the whole output's first column
  // (the kernel is pointed at its panel). bias: of the whole matrix, or null.
  void Multiply(const Kernels& kernels, const float* x, size_t x_stride, int rows, int first,
                int count, Epilogue epilogue, const float* bias, float* out, size_t out_stride,
                int out_columns) const;

  // The same of an int8 matrix, whose product is exact: each sum times the row's scale, times the
  // column's.
  void MultiplyInt8(const Kernels& kernels, const QuantizedRows& x, int rows, int first, int count,
                    Epilogue epilogue, const float* bias, float* out, size_t out_stride,
                    int out_columns) const;

  // The same of a matrix by group.
  void MultiplyGrouped(const Kernels& kernels, const GroupedRows& x, int rows, int first, int count,
                       Epilogue epilogue, const float* bias, float* out, size_t out_stride,
                       int out_columns) const;

 private:
  // Of a matrix by group.
  struct GroupedPanel {
    size_t begin = 0;  // bytes into data_
    GroupLayout layout;
  };

  // The rows of a panel; those past the last column have no data.
  struct PanelRows;
  PanelRows RowsOf(const std::function<SourceRow(int)>& row, int panel) const;
  // Writes a whole panel of panel_words(). False: a value was rounded. int8: `scales`, 32 of them,
  // are written, too.
  bool Pack(const PanelRows& rows, uint32_t* panel, float* scales) const;
  bool PackInt8(const PanelRows& rows, int8_t* panel, float* scales) const;
  // Lays and packs all panels.
  void PackGrouped(const std::function<SourceRow(int)>& row);
  // Of a matrix in the file: the panel, packed in this thread's own room until its next call.
  const uint32_t* PackHere(int panel) const;
  // Of a matrix by group: the panel, packed here if it is in the file.
  const uint8_t* GroupedPanelAt(int panel, GroupLayout* layout) const;

  MultiplyArgs Args(int first, int count, Epilogue epilogue, const float* bias, float* out,
                    size_t out_stride, int out_columns) const;
  // Not of a matrix by group, whose panels differ.
  size_t panel_words() const {
    if (type_ == WeightType::kInt8) return Int8PanelBytes(k_) / sizeof(uint32_t);
    return static_cast<size_t>(k_) * WordsPerK(type_);
  }

  int columns_ = 0;
  int k_ = 0;
  int panels_ = 0;
  WeightType type_ = WeightType::kFloat32;
  bool exact_ = true;
  Buffer data_;                        // empty: in the file
  Buffer scales_;                      // float [panels * 32], of int8
  std::vector<GroupedPanel> grouped_;  // of a matrix by group, each panel
  std::function<SourceRow(int)> row_;  // of a matrix in the file
};

}  // namespace tandem::model::cpu
