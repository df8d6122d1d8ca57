#include "model/cpu/packed_matrix.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "model/cpu/half.h"
#include "model/cpu/pack_groups.h"

namespace tandem::model::cpu {
namespace {

// Where a column's 16-bit value lies among the 32 of one k.
int HalfOf(WeightType type, int lane) {
  return type == WeightType::kFloat16 ? lane : Bfloat16Half(lane);
}

}  // namespace

struct PackedMatrix::PanelRows {
  SourceRow row[kPanelColumns];

  // Whether all that are there are of this type.
  bool AllOf(SourceType type) const {
    return std::all_of(std::begin(row), std::end(row), [type](const SourceRow& source) {
      return source.data == nullptr || source.type == type;
    });
  }
};

namespace {

// The rows' values as they are, in blocks that stay in the first cache.
template <class T, class Lane>
void Transpose(const SourceRow* rows, int k, T* panel, Lane lane_of) {
  constexpr int kBlock = 16;
  for (int begin = 0; begin < k; begin += kBlock) {
    const int end = std::min(begin + kBlock, k);
    for (int column = 0; column < kPanelColumns; ++column) {
      T* to = panel + lane_of(column);
      const auto* from = static_cast<const char*>(rows[column].data);
      for (int i = begin; i < end; ++i) {
        T value = 0;
        if (from != nullptr) std::memcpy(&value, from + i * sizeof(T), sizeof(T));
        to[static_cast<size_t>(i) * kPanelColumns] = value;
      }
    }
  }
}

// value, as 16 bits.
uint16_t ToHalf(WeightType type, float value) {
  return type == WeightType::kBfloat16 ? ToBfloat16(value) : ToFloat16(value);
}
float FromHalf(WeightType type, uint16_t half) {
  return type == WeightType::kBfloat16 ? FromBfloat16(half) : FromFloat16(half);
}

// Where an input of a column lies in a panel of int8.
size_t Int8Place(int column, int index) {
  const size_t group = static_cast<size_t>(index / kInt8Group);
  return (group * kPanelColumns + column % kPanelColumns) * kInt8Group + index % kInt8Group;
}

}  // namespace

PackedMatrix::PackedMatrix(int columns, int k, WeightType type, std::function<SourceRow(int)> row,
                           Place place)
    : columns_(columns),
      k_(k),
      panels_(RoundUpToPanel(columns) / kPanelColumns),
      type_(type),
      data_(place == Place::kFile || IsGrouped(type) ? 0
                                                     : panels_ * panel_words() * sizeof(uint32_t)),
      scales_(type == WeightType::kInt8 ? FloatBuffer(static_cast<size_t>(panels_) * kPanelColumns)
                                        : Buffer()) {
  if (IsGrouped(type) && place == Place::kMemory) PackGrouped(row);
  for (int panel = 0; !IsGrouped(type) && panel < panels_; ++panel) {
    float* scales = type == WeightType::kInt8 ? scales_.floats() + panel * kPanelColumns : nullptr;
    const PanelRows rows = RowsOf(row, panel);
    if (place == Place::kMemory) {
      exact_ = Pack(rows, static_cast<uint32_t*>(data_.data()) + panel * panel_words(), scales) &&
               exact_;
      continue;
    }
    for (int i = 0; scales != nullptr && i < kPanelColumns; ++i) scales[i] = rows.row[i].scale;
  }
  if (place == Place::kFile) row_ = std::move(row);
}

PackedMatrix::PanelRows PackedMatrix::RowsOf(const std::function<SourceRow(int)>& row,
                                             int panel) const {
  PanelRows rows;
  for (int i = 0; i < kPanelColumns; ++i) {
    const int column = panel * kPanelColumns + i;
    if (column < columns_) rows.row[i] = row(column);
  }
  return rows;
}

bool PackedMatrix::Pack(const PanelRows& rows, uint32_t* panel, float* scales) const {
  if (type_ == WeightType::kInt8) {
    return PackInt8(rows, reinterpret_cast<int8_t*>(panel), scales);
  }
  if (type_ == WeightType::kFloat32 && rows.AllOf(SourceType::kFloat32)) {
    Transpose(rows.row, k_, panel, [](int column) { return column; });
    return true;
  }
  const bool bf16 = type_ == WeightType::kBfloat16;
  auto* halves = reinterpret_cast<uint16_t*>(panel);
  const auto lane = [this](int column) { return HalfOf(type_, column); };
  if (type_ != WeightType::kFloat32 &&
      rows.AllOf(bf16 ? SourceType::kBfloat16 : SourceType::kFloat16)) {
    Transpose(rows.row, k_, halves, lane);
    return true;
  }
  bool exact = true;
  for (int column = 0; column < kPanelColumns; ++column) {
    const SourceRow& source = rows.row[column];
    for (int i = 0; i < k_; ++i) {
      const float value = source.data == nullptr ? 0.0f : ReadValue(source.data, source.type, i);
      const size_t at = static_cast<size_t>(i) * kPanelColumns;
      if (type_ == WeightType::kFloat32) {
        panel[at + column] = BitsOfFloat(value);
        continue;
      }
      const uint16_t half = ToHalf(type_, value);
      halves[at + lane(column)] = half;
      exact = exact && FromHalf(type_, half) == value;
    }
  }
  return exact;
}

bool PackedMatrix::PackInt8(const PanelRows& rows, int8_t* panel, float* scales) const {
  bool exact = true;
  std::vector<float> values(k_);
  int32_t negatives[kPanelColumns] = {};
  int8_t* const weights = panel + kInt8PanelHeader;
  for (int column = 0; column < kPanelColumns; ++column) {
    const SourceRow& source = rows.row[column];
    const auto* integers = static_cast<const int8_t*>(source.data);
    const bool filed = source.type == SourceType::kInt8;
    Int8Scale of;
    if (source.data != nullptr && !filed) {
      for (int i = 0; i < k_; ++i) values[i] = ReadValue(source.data, source.type, i);
      of = ScaleOf(values.data(), k_);
    }
    scales[column] = filed ? source.scale : of.scale;
    for (int i = 0; i < Int8Groups(k_) * kInt8Group; ++i) {
      int8_t stored = 0;
      if (source.data != nullptr && i < k_) {
        stored = filed ? integers[i] : ToInt8(values[i], of.inverse);
        exact = exact && (filed || static_cast<float>(stored) * of.scale == values[i]);
      }
      weights[Int8Place(column, i)] = stored;
      if (stored < 0) negatives[column] -= stored;
    }
  }
  std::memcpy(panel, negatives, sizeof(negatives));
  return exact;
}

void PackedMatrix::PackGrouped(const std::function<SourceRow(int)>& row) {
  size_t bytes = 0;
  for (int panel = 0; panel < panels_; ++panel) {
    grouped_.push_back({bytes, PanelLayout(RowsOf(row, panel).row, type_)});
    bytes += grouped_.back().layout.panel_bytes(k_);
  }
  data_ = Buffer(bytes);
  for (int panel = 0; panel < panels_; ++panel) {
    auto* const packed = static_cast<uint8_t*>(data_.data()) + grouped_[panel].begin;
    exact_ = PackGroups(RowsOf(row, panel).row, k_, grouped_[panel].layout, packed) && exact_;
  }
}

namespace {

// A thread packs one panel at a time, and multiplies it before the next.
void* PanelRoom(size_t bytes) {
  thread_local Buffer room;
  if (room.bytes() < bytes) room = Buffer(bytes);
  return room.data();
}

}  // namespace

const uint32_t* PackedMatrix::PackHere(int panel) const {
  auto* const packed = static_cast<uint32_t*>(PanelRoom(panel_words() * sizeof(uint32_t)));
  float scales[kPanelColumns];  // known already
  Pack(RowsOf(row_, panel), packed, scales);
  return packed;
}

const uint8_t* PackedMatrix::GroupedPanelAt(int panel, GroupLayout* layout) const {
  if (!in_file()) {
    *layout = grouped_[panel].layout;
    return static_cast<const uint8_t*>(data_.data()) + grouped_[panel].begin;
  }
  const PanelRows rows = RowsOf(row_, panel);
  *layout = PanelLayout(rows.row, type_);
  auto* const packed = static_cast<uint8_t*>(PanelRoom(layout->panel_bytes(k_)));
  PackGroups(rows.row, k_, *layout, packed);
  return packed;
}

void PackedMatrix::ReadColumn(int column, float* out) const {
  if (in_file() && !IsGrouped(type_)) {
    const SourceRow source = row_(column);
    for (int i = 0; i < k_; ++i) {
      out[i] = source.data == nullptr ? 0.0f : ReadValue(source.data, source.type, i);
      if (source.type == SourceType::kInt8) out[i] *= source.scale;
    }
    return;
  }
  if (IsGrouped(type_)) {
    GroupLayout layout;
    const uint8_t* const panel = GroupedPanelAt(column / kPanelColumns, &layout);
    for (int group = 0; group < InputGroups(k_); ++group) {
      const int begin = group * kGroupInputs;
      const WeightGroup weights = LoadGroup(layout, panel, group, column % kPanelColumns);
      for (int i = 0; i < std::min(kGroupInputs, k_ - begin); ++i) {
        out[begin + i] = WeightOf(layout, weights, i);
      }
    }
    return;
  }
  if (type_ == WeightType::kInt8) {
    const float scale = scales_.floats()[column];
    const int8_t* panel = static_cast<const int8_t*>(data_.data()) +
                          column / kPanelColumns * panel_words() * sizeof(uint32_t) +
                          kInt8PanelHeader;
    for (int i = 0; i < k_; ++i) out[i] = static_cast<float>(panel[Int8Place(column, i)]) * scale;
    return;
  }
  const uint32_t* panel =
      static_cast<const uint32_t*>(data_.data()) + column / kPanelColumns * panel_words();
  const int lane = column % kPanelColumns;
  if (type_ == WeightType::kFloat32) {
    for (int i = 0; i < k_; ++i) out[i] = FloatFromBits(panel[static_cast<size_t>(i) * 32 + lane]);
    return;
  }
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(panel) + HalfOf(type_, lane);
  for (int i = 0; i < k_; ++i) {
    const uint16_t half = halves[static_cast<size_t>(i) * 32];
    out[i] = type_ == WeightType::kBfloat16 ? FromBfloat16(half) : FromFloat16(half);
  }
}

MultiplyArgs PackedMatrix::Args(int first, int count, Epilogue epilogue, const float* bias,
                                float* out, size_t out_stride, int out_columns) const {
  const int width = epilogue == Epilogue::kSwiGlu ? kLanes : kPanelColumns;
  MultiplyArgs args;
  args.k = k_;
  if (!in_file() && !IsGrouped(type_)) {
    args.panels = static_cast<const uint32_t*>(data_.data()) + first * panel_words();
  }
  args.panel_words = IsGrouped(type_) ? 0 : panel_words();
  args.panel_count = count;
  args.type = type_;
  args.epilogue = epilogue;
  args.bias = bias == nullptr ? nullptr : bias + first * kPanelColumns;
  args.out = out + first * width;
  args.out_stride = out_stride;
  args.out_columns = std::max(0, std::min(out_columns - first * width, count * width));
  return args;
}

void PackedMatrix::Multiply(const Kernels& kernels, const float* x, size_t x_stride, int rows,
                            int first, int count, Epilogue epilogue, const float* bias, float* out,
                            size_t out_stride, int out_columns) const {
  for (int panel = first; in_file() && panel < first + count; ++panel) {
    MultiplyArgs args = Args(panel, 1, epilogue, bias, out, out_stride, out_columns);
    args.panels = PackHere(panel);
    args.x = x;
    args.x_stride = x_stride;
    args.rows = rows;
    kernels.multiply(args);
  }
  if (in_file()) return;
  MultiplyArgs args = Args(first, count, epilogue, bias, out, out_stride, out_columns);
  args.x = x;
  args.x_stride = x_stride;
  args.rows = rows;
  kernels.multiply(args);
}

void PackedMatrix::MultiplyInt8(const Kernels& kernels, const QuantizedRows& x, int rows, int first,
                                int count, Epilogue epilogue, const float* bias, float* out,
                                size_t out_stride, int out_columns) const {
  const MultiplyArgs args = Args(first, count, epilogue, bias, out, out_stride, out_columns);
  const int blocks = (rows + kMaxInt8Rows - 1) / kMaxInt8Rows;
  // Weights come from memory once: a panel meets all rows before the next panel.
  for (int panel = 0; panel < count; ++panel) {
    const auto* packed = reinterpret_cast<const int8_t*>(
        in_file() ? PackHere(first + panel)
                  : static_cast<const uint32_t*>(args.panels) + panel * args.panel_words);
    const float* scales = scales_.floats() + static_cast<size_t>(first + panel) * kPanelColumns;
    for (int b = 0; b < blocks; ++b) {
      const int begin = static_cast<int>(int64_t{rows} * b / blocks);
      const int end = static_cast<int>(int64_t{rows} * (b + 1) / blocks);
      int32_t sums[kMaxInt8Rows][kPanelColumns];
      kernels.int8->multiply(x.row(begin), x.stride(), x.sums() + begin, end - begin,
                             Int8Groups(k_), packed, sums);
      for (int row = begin; row < end; ++row) {
        kernels.finish(args, row, panel, sums[row - begin], x.scales()[row], scales);
      }
    }
  }
}

void PackedMatrix::MultiplyGrouped(const Kernels& kernels, const GroupedRows& x, int rows,
                                   int first, int count, Epilogue epilogue, const float* bias,
                                   float* out, size_t out_stride, int out_columns) const {
  const MultiplyArgs args = Args(first, count, epilogue, bias, out, out_stride, out_columns);
  GroupedArgs grouped;
  grouped.groups = InputGroups(k_);
  for (int panel = 0; panel < count; ++panel) {
    grouped.panel = GroupedPanelAt(first + panel, &grouped.layout);
    for (int b = 0; b < RowBlocks(rows); ++b) {
      const RowBlock block = RowBlockAt(rows, b);
      grouped.x = x.block(grouped.groups, block);
      grouped.rows = block.count;
      float sums[kMaxGroupedRows][kPanelColumns];
      kernels.grouped->multiply(grouped, sums);
      for (int row = 0; row < block.count; ++row) {
        kernels.store(args, block.begin + row, panel, sums[row]);
      }
    }
  }
}

}  // namespace tandem::model::cpu
