#include "common/gguf/gguf_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/excerpt.h"
#include "common/base/status_macros.h"
#include "common/gguf/parts.h"

namespace tandem::gguf {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxNameBytes = 256;  // of a tensor; ggml's own bound is 64
constexpr uint32_t kMaxDimensions = 4;
constexpr uint32_t kMaxAlignment = 1 << 20;
constexpr uint64_t kMaxTensors = 65536, kMaxKeys = 65536;
constexpr uint64_t kMaxElements = 1 << 24;  // of an array: more than any vocabulary has
constexpr int64_t kMaxDimension = int64_t{1} << 40;

enum Type : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

size_t BytesOf(uint32_t type) {
  switch (type) {
    case kU8:
    case kI8:
    case kBool:
      return 1;
    case kU16:
    case kI16:
      return 2;
    case kU32:
    case kI32:
    case kF32:
      return 4;
    case kU64:
    case kI64:
    case kF64:
      return 8;
    default:
      return 0;
  }
}

// Values and bytes of a block. An element of F32 is a block of one.
struct BlockSize {
  uint32_t values;
  uint32_t bytes;
};

struct TensorType {
  uint32_t id;
  const char* name;
  BlockSize block;
};
constexpr TensorType kTensorTypes[] = {
    {0, "F32", {1, 4}},       {1, "F16", {1, 2}},       {2, "Q4_0", {32, 18}},
    {3, "Q4_1", {32, 20}},    {6, "Q5_0", {32, 22}},    {7, "Q5_1", {32, 24}},
    {8, "Q8_0", {32, 34}},    {12, "Q4_K", {256, 144}}, {13, "Q5_K", {256, 176}},
    {14, "Q6_K", {256, 210}}, {30, "BF16", {1, 2}},
};

template <typename T>
T At(const char* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

// A number or a boolean.
Value ScalarAt(uint32_t type, const char* data) {
  switch (type) {
    case kU8:
      return uint64_t{At<uint8_t>(data)};
    case kI8:
      return int64_t{At<int8_t>(data)};
    case kU16:
      return uint64_t{At<uint16_t>(data)};
    case kI16:
      return int64_t{At<int16_t>(data)};
    case kU32:
      return uint64_t{At<uint32_t>(data)};
    case kI32:
      return int64_t{At<int32_t>(data)};
    case kU64:
      return At<uint64_t>(data);
    case kI64:
      return At<int64_t>(data);
    case kF32:
      return double{At<float>(data)};
    case kF64:
      return At<double>(data);
    default:
      return *data != 0;
  }
}

std::optional<double> NumberOf(const Value& value) {
  if (const auto* number = std::get_if<uint64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

std::optional<int64_t> IntegerOf(const Value& value) {
  const std::optional<double> number = NumberOf(value);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!number.has_value() || !(*number >= -kExact && *number <= kExact)) return std::nullopt;
  const auto integer = static_cast<int64_t>(*number);
  return static_cast<double>(integer) == *number ? std::optional(integer) : std::nullopt;
}

// Reads from the front. Once something did not fit, nothing does.
class Reader {
 public:
  Reader(const char* data, size_t size) : begin_(data), at_(data), left_(size) {}

  template <typename T>
  T Take() {
    T value{};
    if (const char* data = Skip(sizeof(T))) std::memcpy(&value, data, sizeof(T));
    return value;
  }
  const char* Skip(uint64_t bytes) {
    if (!ok_ || bytes > left_) {
      ok_ = false;
      return nullptr;
    }
    left_ -= bytes;
    return std::exchange(at_, at_ + bytes);
  }
  absl::string_view Text() {
    const auto size = Take<uint64_t>();
    const char* data = Skip(size);
    return data == nullptr ? absl::string_view() : absl::string_view(data, size);
  }
  bool ok() const { return ok_; }
  size_t position() const { return at_ - begin_; }

 private:
  const char* const begin_;
  const char* at_;
  size_t left_;
  bool ok_ = true;
};

absl::Status Truncated(const Reader& reader) {
  return absl::DataLossError(absl::StrCat(
      "truncated, or its sizes are wrong: its header goes on past the file's end after byte ",
      reader.position(), "; download it again"));
}

absl::StatusOr<Value> ReadValue(absl::string_view key, Reader& reader) {
  const auto type = reader.Take<uint32_t>();
  const auto unknown = [key](uint32_t of) {
    return absl::InvalidArgumentError(
        absl::StrCat("key ", base::Excerpt(key), " has type ", of, ", which GGUF does not have"));
  };
  if (type == kString) return reader.Text();
  if (type != kArray) {
    const size_t bytes = BytesOf(type);
    if (bytes == 0) return unknown(type);
    const char* data = reader.Skip(bytes);
    return data == nullptr ? Value(false) : ScalarAt(type, data);
  }
  Array array{reader.Take<uint32_t>(), reader.Take<uint64_t>()};
  if (array.type == kArray) {
    return absl::InvalidArgumentError(
        absl::StrCat("key ", base::Excerpt(key), " is an array of arrays; not supported"));
  }
  const size_t bytes = BytesOf(array.type);
  if (array.type != kString && bytes == 0) return unknown(array.type);
  if (reader.ok() && array.size > kMaxElements) {
    return absl::InvalidArgumentError(absl::StrCat("key ", base::Excerpt(key), " is an array of ",
                                                   array.size, "; supported: at most ",
                                                   kMaxElements));
  }
  if (array.type == kString) {
    array.data = reader.Skip(0);
    for (uint64_t i = 0; i < array.size && reader.ok(); ++i) reader.Text();
  } else {
    array.data = reader.Skip(array.size * bytes);
  }
  return array;
}

struct Extent {
  uint64_t begin, end;
  std::string name;
};

// `offset` is relative to the beginning of the tensors' data.
absl::StatusOr<Tensor> ReadTensor(absl::string_view name, Reader& reader, uint64_t* offset) {
  const auto wrong = [name](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", base::Excerpt(name), what...));
  };
  const auto dimensions = reader.Take<uint32_t>();
  if (reader.ok() && (dimensions == 0 || dimensions > kMaxDimensions)) {
    return wrong(" has ", dimensions, " dimensions; supported: 1 to ", kMaxDimensions);
  }
  Tensor tensor;
  for (uint32_t i = 0; i < dimensions && reader.ok(); ++i) {
    const auto size = reader.Take<uint64_t>();
    if (reader.ok() && (size == 0 || size > static_cast<uint64_t>(kMaxDimension))) {
      return wrong(" has a dimension of ", size);
    }
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
  }
  const auto id = reader.Take<uint32_t>();
  *offset = reader.Take<uint64_t>();
  if (!reader.ok()) return tensor;
  const auto* type = std::find_if(std::begin(kTensorTypes), std::end(kTensorTypes),
                                  [id](const TensorType& one) { return one.id == id; });
  if (type == std::end(kTensorTypes)) {
    return wrong(" has ggml's type ", id,
                 "; supported: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K; "
                 "take another file of the "
                 "model");
  }
  tensor.type = type->name;
  if (tensor.shape.back() % type->block.values != 0) {
    return wrong(": rows of ", tensor.shape.back(), " values are not whole blocks of ", type->name,
                 " (", type->block.values, " values)");
  }
  unsigned __int128 bytes =
      static_cast<uint64_t>(tensor.shape.back() / type->block.values) * type->block.bytes;
  for (uint32_t i = 0; i + 1 < dimensions && bytes >> 62 == 0; ++i)
    bytes *= static_cast<uint64_t>(tensor.shape[i]);
  if (bytes >> 62 != 0) return wrong(" is larger than any file");
  tensor.bytes = static_cast<size_t>(bytes);
  return tensor;
}

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return status.ok() ? status
                     : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<File>> File::Open(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> paths, PartsOf(path));
  auto file = std::unique_ptr<File>(new File());
  for (const std::string& part : paths) {
    TANDEM_RETURN_IF_ERROR(file->Map(part));
    TANDEM_RETURN_IF_ERROR(
        InFile(part, file->Read(file->mappings_.back(), file->mappings_.size() == 1)));
  }
  const int64_t tensors = file->Integer("split.tensors.count").value_or(0);
  if (paths.size() > 1 && tensors > 0 && tensors != static_cast<int64_t>(file->tensors_.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": its parts have ", file->tensors_.size(),
                     " tensors together, and split.tensors.count is ", tensors,
                     ": they are not of one model; download them again"));
  }
  const int64_t parts = file->Integer("split.count").value_or(static_cast<int64_t>(paths.size()));
  if (parts > 1 && parts != static_cast<int64_t>(paths.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": it is one of ", parts,
                     " parts; give the first of them under its own name, NAME-00001-of-",
                     absl::StrFormat("%05d", parts), ".gguf"));
  }
  return file;
}

File::~File() {
  for (const Mapping& mapping : mappings_) munmap(mapping.data, mapping.size);
}

absl::Status File::Map(const std::string& path) {
  // A FIFO would wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  }
  struct stat info = {};
  const bool regular = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  void* data = MAP_FAILED;
  if (regular && info.st_size > 0) {
    data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  }
  close(descriptor);
  if (data == MAP_FAILED) {
    return absl::InvalidArgumentError(absl::StrCat(path, !regular ? ": not a regular file"
                                                         : info.st_size == 0
                                                             ? " is empty"
                                                             : " cannot be mapped"));
  }
  mappings_.push_back({path, data, static_cast<size_t>(info.st_size)});
  return absl::OkStatus();
}

absl::Status File::Read(const Mapping& mapping, bool first) {
  const char* const data = static_cast<const char*>(mapping.data);
  Reader reader(data, mapping.size);
  if (reader.Take<uint32_t>() != kMagic) {
    return absl::InvalidArgumentError("this is not a GGUF file (it does not begin with GGUF)");
  }
  const auto version = reader.Take<uint32_t>();
  if (reader.ok() && version != 2 && version != 3) {
    const bool swapped = version << 16 != 0 ? false : version != 0;
    return absl::InvalidArgumentError(absl::StrCat(swapped ? "big-endian, or version " : "version ",
                                                   version,
                                                   " of GGUF; supported: 2 and 3, little-endian"));
  }
  const auto tensor_count = reader.Take<uint64_t>();
  const auto key_count = reader.Take<uint64_t>();
  if (reader.ok() && (tensor_count > kMaxTensors || key_count > kMaxKeys)) {
    return absl::InvalidArgumentError(absl::StrCat(tensor_count, " tensors and ", key_count,
                                                   " keys; supported: at most ", kMaxTensors,
                                                   " and ", kMaxKeys));
  }
  uint64_t alignment = 32;
  for (uint64_t i = 0; i < key_count && reader.ok(); ++i) {
    const absl::string_view key = reader.Text();
    if (key.size() > kMaxKeyBytes) {
      return absl::InvalidArgumentError(absl::StrCat("a key of ", key.size(), " bytes"));
    }
    TANDEM_ASSIGN_OR_RETURN(const Value value, ReadValue(key, reader));
    if (!reader.ok()) break;
    if (key == "general.alignment") {
      const std::optional<int64_t> given = IntegerOf(value);
      alignment =
          static_cast<uint64_t>(std::clamp<int64_t>(given.value_or(0), 0, kMaxAlignment + 1));
      if (alignment < 8 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("general.alignment is not a power of 2 from 8 to ", kMaxAlignment));
      }
    }
    if (key == "split.no" && IntegerOf(value) != static_cast<int64_t>(mappings_.size()) - 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("split.no is not ", mappings_.size() - 1,
                       ": the parts are not in their order, by their names"));
    }
    if (first && !values_.emplace(key, value).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("key ", base::Excerpt(key), " is there twice"));
    }
  }
  if (!reader.ok()) return Truncated(reader);
  std::vector<Extent> extents;
  for (uint64_t i = 0; i < tensor_count && reader.ok(); ++i) {
    const absl::string_view name = reader.Text();
    if (name.size() > kMaxNameBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the name of a tensor has ", name.size(), " bytes"));
    }
    uint64_t offset = 0;
    TANDEM_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(name, reader, &offset));
    if (!reader.ok()) break;
    if (offset % alignment != 0 || offset > (uint64_t{1} << 62)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", base::Excerpt(name), " begins at ", offset,
                       ", which is not a multiple of the alignment, ", alignment));
    }
    extents.push_back({offset, offset + tensor.bytes, std::string(name)});
    if (!tensors_.emplace(name, std::move(tensor)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", base::Excerpt(name), " is there twice"));
    }
  }
  if (!reader.ok()) return Truncated(reader);
  const uint64_t begin = (reader.position() + alignment - 1) / alignment * alignment;
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < extents.size(); ++i) {
    if (begin > mapping.size || extents[i].end > mapping.size - begin) {
      return absl::DataLossError(absl::StrCat(
          "truncated: tensor ", base::Excerpt(extents[i].name), " ends at byte ",
          begin + extents[i].end, ", the file at ", mapping.size, "; download it again"));
    }
    if (i > 0 && extents[i].begin < extents[i - 1].end) {
      return absl::InvalidArgumentError(absl::StrCat("tensors ", base::Excerpt(extents[i - 1].name),
                                                     " and ", base::Excerpt(extents[i].name),
                                                     " overlap"));
    }
    tensors_.find(extents[i].name)->second.data = data + begin + extents[i].begin;
  }
  return absl::OkStatus();
}

void File::DropPages() const {
  for (const Mapping& mapping : mappings_) {
    madvise(mapping.data, mapping.size, MADV_DONTNEED);
    const int descriptor = open(mapping.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) continue;
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    close(descriptor);
  }
}

std::optional<absl::string_view> File::String(absl::string_view key) const {
  const auto it = values_.find(key);
  if (it == values_.end()) return std::nullopt;
  const auto* text = std::get_if<absl::string_view>(&it->second);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

std::optional<double> File::Number(absl::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? std::nullopt : NumberOf(it->second);
}

std::optional<int64_t> File::Integer(absl::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? std::nullopt : IntegerOf(it->second);
}

std::optional<bool> File::Bool(absl::string_view key) const {
  const auto it = values_.find(key);
  if (it == values_.end()) return std::nullopt;
  const bool* value = std::get_if<bool>(&it->second);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::vector<absl::string_view>> File::Strings(absl::string_view key) const {
  const auto it = values_.find(key);
  if (it == values_.end()) return std::nullopt;
  const Array* array = std::get_if<Array>(&it->second);
  if (array == nullptr || array->type != kString) return std::nullopt;
  std::vector<absl::string_view> strings;
  strings.reserve(array->size);  // each has 8 bytes in the file, at least
  const char* at = array->data;
  for (uint64_t i = 0; i < array->size; ++i) {
    const auto size = At<uint64_t>(at);
    strings.emplace_back(at + 8, size);
    at += 8 + size;
  }
  return strings;
}

std::optional<std::vector<double>> File::Numbers(absl::string_view key) const {
  const auto it = values_.find(key);
  if (it == values_.end()) return std::nullopt;
  const Array* array = std::get_if<Array>(&it->second);
  if (array == nullptr || array->type == kString) return std::nullopt;
  std::vector<double> numbers;
  numbers.reserve(array->size);
  const size_t bytes = BytesOf(array->type);
  for (uint64_t i = 0; i < array->size; ++i) {
    const Value value = ScalarAt(array->type, array->data + i * bytes);
    const bool* flag = std::get_if<bool>(&value);
    numbers.push_back(flag != nullptr ? *flag : NumberOf(value).value_or(0));
  }
  return numbers;
}

}  // namespace tandem::gguf
