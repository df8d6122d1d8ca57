// A pass's kernels as the host runs them, at once and block by block.
//
// Thread safety: none.
#pragma once

#include <memory>

#include "torch/kernels/pass_kernels.h"

namespace tandem::kernels {

// A mistake that tests make on purpose.
enum class TypeFault {
  kNone,
  kFloat16AsBfloat16,  // words of as many bits
};

template <AttentionFault kInAttention = AttentionFault::kNone,
          NormRopeFault kInNormRope = NormRopeFault::kNone,
          Int8RowsFault kInInt8Rows = Int8RowsFault::kNone, TypeFault kOfTypes = TypeFault::kNone>
class HostPassKernels final : public PassKernels {
 public:
  absl::Status Attend(ElementType type, const AttentionArguments& a, void*) override {
    return Run(type,
               [&](auto element) { RunAttention<decltype(element), Attention>(a, *shared_); });
  }
  absl::Status AttendByMma(ElementType type, const AttentionArguments& a, void*) override {
    if (type == ElementType::kBfloat16) {
      RunAttention<Bfloat16, Mma>(a, *mma_shared_);
    } else {
      RunAttention<Float16, Mma>(a, *mma_shared_);
    }
    return absl::OkStatus();
  }
  absl::Status AddNorm(ElementType type, const AddNormArguments& a, uint32_t rows, void*) override {
    return Run(type, [&](auto element) { RunAddNorm<decltype(element)>(a, rows); });
  }
  absl::Status RopeWrite(ElementType type, const RopeWriteArguments& a, uint32_t rows,
                         void*) override {
    return Run(type, [&](auto element) { RunRopeWrite<decltype(element)>(a, rows); });
  }
  absl::Status Gate(ElementType type, const GateArguments& a, uint32_t rows, void*) override {
    return Run(type, [&](auto element) { RunGate<decltype(element)>(a, rows); });
  }
  absl::Status Quantize(const QuantizeArguments& a, uint32_t rows, void*) override {
    QuantizeShared<Int8Rows> shared;
    for (uint32_t x = 0; x < rows; ++x) kernels::Quantize<Int8Rows>(BlockOf(x), shared, a);
    return absl::OkStatus();
  }
  absl::Status Scale(const ScaleArguments& a, uint32_t rows, void*) override {
    for (uint32_t x = 0; x < rows; ++x) {
      for (uint32_t y = 0; y < ColumnsOf(a.size); ++y) kernels::Scale<Int8Rows>(BlockOf(x, y), a);
    }
    return absl::OkStatus();
  }

 private:
  // kThreads below what a block has to do, so that loops take turns.
  struct Attention {
    static constexpr int kThreads = 32;
    static constexpr uint32_t RowsTogether(uint32_t /*group*/) { return 8; }
    static constexpr int kGroup = 4;
    static constexpr int kPairs = 8;
    static constexpr AttentionFault kFault = kInAttention;
  };
  struct Mma : MmaAttentionTraits {
    static constexpr AttentionFault kFault = kInAttention;
  };
  struct NormRope {
    static constexpr int kThreads = 32;
    static constexpr NormRopeFault kFault = kInNormRope;
  };

  struct Int8Rows {
    static constexpr int kThreads = 32;
    static constexpr Int8RowsFault kFault = kInInt8Rows;
  };

  static constexpr uint32_t kThreads = 32;

  static Block BlockOf(uint32_t x, uint32_t y = 0) {
    return Block(x, y, kThreads, ThreadOrder::kDescending);
  }
  static uint32_t ColumnsOf(uint32_t count) { return (count + kThreads - 1) / kThreads; }

  // With a value of the type.
  template <typename Kernel>
  static absl::Status Run(ElementType type, Kernel kernel) {
    switch (type) {
      case ElementType::kFloat32:
        kernel(Float32());
        break;
      case ElementType::kBfloat16:
        kernel(Bfloat16());
        break;
      case ElementType::kFloat16:
        if constexpr (kOfTypes == TypeFault::kFloat16AsBfloat16) {
          kernel(Bfloat16());
        } else {
          kernel(Float16());
        }
        break;
    }
    return absl::OkStatus();
  }

  template <typename Element, typename Traits, typename Shared>
  void RunAttention(AttentionArguments a, Shared& shared) {
    a.blocks = 3;  // fewer than partials, so that each takes several
    for (uint32_t x = 0; x < a.blocks; ++x) {
      const Block block(x, 0, Traits::kThreads, ThreadOrder::kDescending);
      AttendPartials<Traits, Element>(block, shared, a);
    }
    const uint32_t columns = ColumnsOf(a.heads * a.layer.head_size);
    for (uint32_t x = 0; x < a.row_count; ++x) {
      for (uint32_t y = 0; y < columns; ++y) CombinePartials<Attention, Element>(BlockOf(x, y), a);
    }
  }
  template <typename Element>
  void RunAddNorm(const AddNormArguments& a, uint32_t rows) {
    AddNormShared shared;
    for (uint32_t x = 0; x < rows; ++x) {
      kernels::AddNorm<NormRope, Element>(BlockOf(x), shared, a);
    }
  }
  template <typename Element>
  void RunRopeWrite(const RopeWriteArguments& a, uint32_t rows) {
    const uint32_t heads = a.heads + 2 * a.layer.kv_heads;
    const uint32_t of_block = HeadsOfBlock(kThreads, a.layer.head_size);
    const uint32_t columns = (heads + of_block - 1) / of_block;
    RopeWriteShared shared;
    for (uint32_t x = 0; x < rows; ++x) {
      for (uint32_t y = 0; y < columns; ++y) {
        kernels::RopeWrite<NormRope, Element>(BlockOf(x, y), shared, a);
      }
    }
  }

  template <typename Element>
  void RunGate(const GateArguments& a, uint32_t rows) {
    for (uint32_t x = 0; x < rows; ++x) {
      for (uint32_t y = 0; y * GateColumn(kThreads) < a.size; ++y) {
        kernels::Gate<NormRope, Element>(BlockOf(x, y), a);
      }
    }
  }

  const std::unique_ptr<AttentionShared<Attention>> shared_ =
      std::make_unique<AttentionShared<Attention>>();
  const std::unique_ptr<MmaShared<Mma>> mma_shared_ = std::make_unique<MmaShared<Mma>>();
};

}  // namespace tandem::kernels
