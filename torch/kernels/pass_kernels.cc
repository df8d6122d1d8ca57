#include "torch/kernels/pass_kernels.h"

#include <utility>

#include "common/base/status_macros.h"
#include "torch/kernels/cuda_driver.h"
#include "torch/kernels/launch.h"
#include "torch/kernels/load_kernels.h"

namespace tandem::kernels {
namespace {

class CardKernels final : public PassKernels {
 public:
  CardKernels(std::unique_ptr<CudaDriver> driver, std::unique_ptr<KernelModule> attention,
              std::unique_ptr<KernelModule> norm_rope, std::unique_ptr<KernelModule> int8_rows)
      : driver_(std::move(driver)),
        attention_(std::move(attention)),
        norm_rope_(std::move(norm_rope)),
        int8_rows_(std::move(int8_rows)) {}

  absl::Status Attend(ElementType type, const AttentionArguments& arguments,
                      void* stream) override {
    return LaunchAttention(*attention_, type, arguments, stream);
  }
  // Few ask for it, so it is compiled when one does.
  absl::Status AttendByMma(ElementType type, const AttentionArguments& arguments,
                           void* stream) override {
    if (mma_ == nullptr) {
      TANDEM_ASSIGN_OR_RETURN(mma_, LoadKernels(*driver_, "torch/kernels/attention_mma.cu"));
    }
    return LaunchAttentionByMma(*mma_, *attention_, type, arguments, stream);
  }
  absl::Status AddNorm(ElementType type, const AddNormArguments& arguments, uint32_t rows,
                       void* stream) override {
    return LaunchAddNorm(*norm_rope_, type, arguments, rows, stream);
  }
  absl::Status RopeWrite(ElementType type, const RopeWriteArguments& arguments, uint32_t rows,
                         void* stream) override {
    return LaunchRopeWrite(*norm_rope_, type, arguments, rows, stream);
  }
  absl::Status Gate(ElementType type, const GateArguments& arguments, uint32_t rows,
                    void* stream) override {
    return LaunchGate(*norm_rope_, type, arguments, rows, stream);
  }
  absl::Status Quantize(const QuantizeArguments& arguments, uint32_t rows, void* stream) override {
    return LaunchQuantize(*int8_rows_, arguments, rows, stream);
  }
  absl::Status Scale(const ScaleArguments& arguments, uint32_t rows, void* stream) override {
    return LaunchScale(*int8_rows_, arguments, rows, stream);
  }

 private:
  const std::unique_ptr<CudaDriver> driver_;
  const std::unique_ptr<KernelModule> attention_;
  std::unique_ptr<KernelModule> mma_;  // null: nobody has asked for it
  const std::unique_ptr<KernelModule> norm_rope_;
  const std::unique_ptr<KernelModule> int8_rows_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PassKernels>> LoadPassKernels(int card) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<CudaDriver> driver, CudaDriver::Load(card));
  TANDEM_RETURN_IF_ERROR(driver->MakeCurrent());
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<KernelModule> attention,
                          LoadKernels(*driver, "torch/kernels/attention.cu"));
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<KernelModule> norm_rope,
                          LoadKernels(*driver, "torch/kernels/norm_rope.cu"));
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<KernelModule> int8_rows,
                          LoadKernels(*driver, "torch/kernels/int8_rows.cu"));
  return std::make_unique<CardKernels>(std::move(driver), std::move(attention),
                                       std::move(norm_rope), std::move(int8_rows));
}

}  // namespace tandem::kernels
