#include "torch/kernels/cuda_buffer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace tandem::kernels {

absl::Status CudaBuffer::Grow(size_t bytes) {
  if (bytes <= size_) return absl::OkStatus();
  // Somewhat more at a time, so that it soon ends.
  bytes = std::max(bytes, size_ + size_ / 2);
  Release();
  const DriverFunctions& driver = driver_.functions();
  int result = 0;
  if (place_ == Place::kDevice) {
    result = driver.allocate(&address_, bytes);
  } else {
    void* memory = nullptr;
    result = driver.allocate_host(&memory, bytes, /*flags=*/0);
    address_ = reinterpret_cast<uint64_t>(memory);
  }
  if (result != 0) {
    address_ = 0;
    return driver_.Checked(
        result, absl::StrCat("taking ", bytes, " bytes of ",
                             place_ == Place::kDevice ? "the card" : "pinned", " memory"));
  }
  size_ = bytes;
  return absl::OkStatus();
}

// A failure here is one that launches have told already.
void CudaBuffer::Release() {
  if (size_ == 0) return;
  if (place_ == Place::kDevice) {
    driver_.functions().release(address_);
  } else {
    driver_.functions().release_host(at<void>(0));
  }
  address_ = 0;
  size_ = 0;
}

absl::Status CudaBuffer::CopyIn(const void* host, size_t bytes, void* stream) const {
  TANDEM_CHECK(place_ == Place::kDevice && bytes <= size_);
  if (bytes == 0) return absl::OkStatus();
  return driver_.Checked(driver_.functions().copy_in(address_, host, bytes, stream),
                         "copying to the card");
}

absl::Status CudaBuffer::CopyOut(size_t offset, void* host, size_t bytes, void* stream) const {
  TANDEM_CHECK(place_ == Place::kDevice && offset + bytes <= size_);
  if (bytes == 0) return absl::OkStatus();
  return driver_.Checked(driver_.functions().copy_out(host, address_ + offset, bytes, stream),
                         "copying from the card");
}

}  // namespace tandem::kernels
