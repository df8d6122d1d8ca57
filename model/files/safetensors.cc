#include "model/files/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"

namespace tandem::model {
namespace {

using base::JsonValue;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// Bytes of an element; 0 for a name that the format does not have.
size_t ElementBytes(const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL" || dtype == "F8_E4M3" ||
      dtype == "F8_E5M2") {
    return 1;
  }
  return 0;
}

bool IsOffsets(const JsonValue& json) {
  return json.IsArray() && json.size() == 2 && json[0].Unsigned().has_value() &&
         json[1].Unsigned().has_value();
}

bool IsShape(const JsonValue& json) {
  if (!json.IsArray()) return false;
  for (const JsonValue& size : json.Elements()) {
    const std::optional<uint64_t> value = size.Unsigned();
    if (!value.has_value() || *value > (uint64_t{1} << 40)) return false;
  }
  return true;
}

struct Extent {
  uint64_t begin;
  uint64_t end;
  std::string name;
};

// One tensor's entry; `extent` is relative to the header's end.
absl::StatusOr<TensorView> ReadEntry(const std::string& name, const JsonValue& entry,
                                     Extent* extent) {
  const std::optional<std::string> dtype = entry["dtype"].String();
  const JsonValue shape = entry["shape"];
  const JsonValue offsets = entry["data_offsets"];
  if (!dtype.has_value() || !IsShape(shape) || !IsOffsets(offsets)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", base::Excerpt(name),
                     ": its header entry is not {dtype, shape, data_offsets [begin, end]}"));
  }
  TensorView view;
  view.dtype = *dtype;
  for (const JsonValue& size : shape.Elements()) view.shape.push_back(*size.Integer());
  *extent = {*offsets[0].Unsigned(), *offsets[1].Unsigned(), name};
  const size_t element = ElementBytes(view.dtype);
  if (element == 0) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", base::Excerpt(name),
                                                   ": unknown dtype ", base::Excerpt(view.dtype)));
  }
  unsigned __int128 wanted = element;
  for (int64_t size : view.shape) {
    wanted *= static_cast<uint64_t>(size);
    if (wanted > (static_cast<unsigned __int128>(1) << 62)) break;
  }
  if (extent->end < extent->begin || wanted != extent->end - extent->begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", base::Excerpt(name), ": ", view.dtype, " ", ShapeText(view.shape),
                     " needs ", static_cast<uint64_t>(wanted), " bytes, its offsets are [",
                     extent->begin, ", ", extent->end, "]"));
  }
  view.bytes = extent->end - extent->begin;
  return view;
}

absl::Status CheckOverlap(std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end) {
      return absl::InvalidArgumentError(absl::StrCat("tensors ", base::Excerpt(extents[i - 1].name),
                                                     " and ", base::Excerpt(extents[i].name),
                                                     " overlap"));
    }
  }
  return absl::OkStatus();
}

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return status.ok() ? status
                     : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  // A FIFO would wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  }
  struct stat info = {};
  auto file = std::unique_ptr<SafetensorsFile>(new SafetensorsFile());
  file->path_ = path;
  const bool regular = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  if (regular && info.st_size > 0) {
    file->size_ = static_cast<size_t>(info.st_size);
    file->mapping_ = mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (file->mapping_ == MAP_FAILED) file->mapping_ = nullptr;
  }
  close(descriptor);
  if (file->mapping_ == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(path, !regular ? ": not a regular file"
                                                         : info.st_size == 0
                                                             ? " is empty"
                                                             : " cannot be mapped"));
  }
  TANDEM_RETURN_IF_ERROR(InFile(path, file->ReadHeader()));
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (mapping_ != nullptr) munmap(mapping_, size_);
}

void SafetensorsFile::DropPages() const {
  // What is mapped is not dropped from the page cache, so it is unmapped first.
  madvise(mapping_, size_, MADV_DONTNEED);
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  close(descriptor);
}

absl::Status SafetensorsFile::ReadHeader() {
  const char* bytes = static_cast<const char*>(mapping_);
  uint64_t length = 0;
  if (size_ >= 8) std::memcpy(&length, bytes, 8);
  if (size_ < 8 || length < 2 || length > kMaxHeaderBytes) {
    return absl::InvalidArgumentError("this is not a safetensors file (no valid header length)");
  }
  if (length > size_ - 8) {
    return absl::DataLossError(
        absl::StrCat("truncated: its header ends at byte ", 8 + length, ", the file has ", size_));
  }
  const auto header = JsonValue::Parse({bytes + 8, length});
  if (!header.ok() || !header->IsObject()) {
    return absl::InvalidArgumentError("its header is not a JSON object");
  }
  std::vector<Extent> extents;
  uint64_t end = 0;
  for (const auto& [name, entry] : header->Members()) {
    if (name == "__metadata__") continue;
    Extent extent;
    TANDEM_ASSIGN_OR_RETURN(TensorView view, ReadEntry(name, entry, &extent));
    end = std::max(end, extent.end);
    extents.push_back(extent);
    tensors_.emplace(name, std::move(view));
  }
  const uint64_t room = size_ - 8 - length;
  if (end > room) {
    return absl::DataLossError(absl::StrCat("truncated: its tensors end at byte ", end,
                                            " after the header, the file at ", room,
                                            "; download it again"));
  }
  for (const Extent& extent : extents) {
    tensors_[extent.name].data = bytes + 8 + length + extent.begin;
  }
  return CheckOverlap(std::move(extents));
}

}  // namespace tandem::model
