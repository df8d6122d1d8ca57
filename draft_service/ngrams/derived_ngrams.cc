#include "draft_service/ngrams/derived_ngrams.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "model/content_hash.h"

namespace tandem::draft_service {
namespace {

static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(Successor) == 8);

constexpr char kMagic[8] = {'T', 'A', 'N', 'D', 'E', 'M', 'N', 'G'};
constexpr char kPartialMagic[8] = {'T', 'A', 'N', 'D', 'E', 'M', 'N', 'P'};
constexpr uint32_t kVersion = 1;
constexpr size_t kIdBytes = 128;  // with a zero at the end

struct NgramFileHeader {
  char magic[8];
  uint32_t version;
  uint32_t vocabulary_size, successors, continuation, unigrams;
  uint32_t done;  // of a part: tokens written
  uint64_t file_bytes;
  uint64_t hash;  // of the whole file with 0 in this place; of a part 0
  char model_id[kIdBytes];
  char tokenizer_id[kIdBytes];
};
static_assert(sizeof(NgramFileHeader) == 48 + 2 * kIdBytes);

uint64_t UnigramsAt() { return sizeof(NgramFileHeader); }
uint64_t BigramsAt(const NgramShape& shape) {
  return UnigramsAt() + uint64_t{shape.unigrams} * sizeof(Successor);
}
uint64_t ContinuationsAt(const NgramShape& shape) {
  return BigramsAt(shape) + uint64_t{shape.vocabulary_size} * shape.successors * sizeof(Successor);
}

NgramFileHeader HeaderOf(const NgramShape& shape, const char (&magic)[8]) {
  NgramFileHeader header = {};
  std::memcpy(header.magic, magic, sizeof(magic));
  header.version = kVersion;
  header.vocabulary_size = shape.vocabulary_size;
  header.successors = shape.successors;
  header.continuation = shape.continuation;
  header.unigrams = shape.unigrams;
  header.file_bytes = shape.FileBytes();
  shape.model_id.copy(header.model_id, kIdBytes - 1);
  shape.tokenizer_id.copy(header.tokenizer_id, kIdBytes - 1);
  return header;
}

std::string IdOf(const char (&id)[kIdBytes]) { return std::string(id, strnlen(id, kIdBytes)); }

NgramShape ShapeOf(const NgramFileHeader& header) {
  return {IdOf(header.model_id), IdOf(header.tokenizer_id), header.vocabulary_size,
          header.successors,     header.continuation,       header.unigrams};
}

uint64_t HashOf(NgramFileHeader header, const char* payload, size_t bytes) {
  header.hash = 0;
  return model::HashBytes(payload, bytes, model::HashBytes(&header, sizeof(header), 0));
}

}  // namespace

absl::Status NgramShape::Validate() const {
  std::vector<std::string> problems;
  const auto check = [&problems](const char* name, uint64_t value, uint64_t min, uint64_t max) {
    if (value >= min && value <= max) return;
    problems.push_back(absl::StrCat(name, " is ", value, ", outside ", min, " to ", max));
  };
  check("the model's id's size", model_id.size(), 1, kIdBytes - 1);
  check("the tokenizer's id's size", tokenizer_id.size(), 1, kIdBytes - 1);
  check("the vocabulary's size", vocabulary_size, 1, kMaxVocabulary);
  const uint64_t most = std::min<uint64_t>(SuccessorTable::kMaxSuccessors, vocabulary_size);
  check("the number of successors", successors, 1, most);
  check("the continuation's length", continuation, 0, kMaxContinuation);
  check("the number of unigrams", unigrams, 1, most);
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

uint64_t NgramShape::FileBytes() const {
  return ContinuationsAt(*this) +
         uint64_t{vocabulary_size} * successors * continuation * sizeof(uint32_t);
}

absl::StatusOr<std::shared_ptr<const DerivedNgrams>> DerivedNgrams::Open(
    const std::string& path, absl::string_view tokenizer_id) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  }
  struct stat status = {};
  void* mapping = MAP_FAILED;
  const bool regular = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const size_t size = regular ? static_cast<size_t>(status.st_size) : 0;
  if (size > 0) mapping = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const int mapping_errno = errno;
  close(descriptor);
  if (!regular) return absl::InvalidArgumentError(absl::StrCat(path, " is no regular file"));
  if (size == 0) return absl::DataLossError(absl::StrCat(path, " is empty"));
  if (mapping == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", path, ": ", strerror(mapping_errno)));
  }
  std::shared_ptr<DerivedNgrams> file(new DerivedNgrams);
  file->data_ = static_cast<const char*>(mapping);
  file->size_ = size;
  const absl::Status checked = file->Check(tokenizer_id);
  if (!checked.ok()) {
    return absl::Status(checked.code(), absl::StrCat(path, ": ", checked.message()));
  }
  return file;
}

DerivedNgrams::~DerivedNgrams() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

absl::Status DerivedNgrams::Check(absl::string_view tokenizer_id) {
  NgramFileHeader header = {};
  std::memcpy(&header, data_, std::min(size_, sizeof(header)));
  if (std::memcmp(header.magic, kPartialMagic, sizeof(kMagic)) == 0) {
    return absl::InvalidArgumentError(
        "is a part of a file; run the same `tandem derive-ngrams` again, which finishes it");
  }
  if (size_ < sizeof(kMagic) || std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return absl::InvalidArgumentError("is no file of `tandem derive-ngrams`");
  }
  if (size_ < sizeof(header)) {
    return absl::DataLossError(
        absl::StrCat("has ", size_, " bytes, and its header has ", sizeof(header)));
  }
  if (header.version != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("has version ", header.version, "; this reads ",
                                                   kVersion, ": derive it again"));
  }
  shape_ = ShapeOf(header);
  const absl::Status shape = shape_.Validate();
  if (!shape.ok()) return absl::DataLossError(absl::StrCat("its header: ", shape.message()));
  if (header.file_bytes != shape_.FileBytes() || size_ != header.file_bytes) {
    return absl::DataLossError(absl::StrCat("has ", size_, " bytes, and its header says ",
                                            shape_.FileBytes(), ": it was cut or changed"));
  }
  if (shape_.tokenizer_id != tokenizer_id) {
    return absl::FailedPreconditionError(
        absl::StrCat("is of a model with the tokenizer ", shape_.tokenizer_id, "; here it is ",
                     tokenizer_id, ": derive it from a model with this one"));
  }
  if (HashOf(header, data_ + sizeof(header), size_ - sizeof(header)) != header.hash) {
    return absl::DataLossError("its content is not what was written");
  }
  return CheckTokens();
}

// What drafters rely on, whoever wrote the file.
absl::Status DerivedNgrams::CheckTokens() const {
  const auto good = [this](absl::Span<const Successor> successors) {
    for (size_t i = 0; i < successors.size(); ++i) {
      const Successor& one = successors[i];
      if (one.token >= shape_.vocabulary_size || one.weight == 0) return false;
      if (i > 0 && one.weight > successors[i - 1].weight) return false;
      for (size_t j = 0; j < i; ++j) {
        if (successors[j].token == one.token) return false;
      }
    }
    return true;
  };
  bool all = good(unigrams());
  for (uint32_t token = 0; all && token < shape_.vocabulary_size; ++token) {
    all = good(bigrams(token));
  }
  const absl::Span<const uint32_t> continuations(
      reinterpret_cast<const uint32_t*>(data_ + ContinuationsAt(shape_)),
      size_t{shape_.vocabulary_size} * shape_.successors * shape_.continuation);
  all = all && std::all_of(continuations.begin(), continuations.end(),
                           [this](uint32_t token) { return token < shape_.vocabulary_size; });
  if (all) return absl::OkStatus();
  return absl::DataLossError("a token of it is out of range, comes twice or has no weight");
}

absl::Span<const Successor> DerivedNgrams::unigrams() const {
  return {reinterpret_cast<const Successor*>(data_ + UnigramsAt()), shape_.unigrams};
}

absl::Span<const Successor> DerivedNgrams::bigrams(uint32_t token) const {
  TANDEM_CHECK(token < shape_.vocabulary_size);
  return {reinterpret_cast<const Successor*>(data_ + BigramsAt(shape_)) +
              size_t{token} * shape_.successors,
          shape_.successors};
}

absl::Span<const uint32_t> DerivedNgrams::continuation(uint32_t token, size_t rank) const {
  TANDEM_CHECK(token < shape_.vocabulary_size && rank < shape_.successors);
  return {reinterpret_cast<const uint32_t*>(data_ + ContinuationsAt(shape_)) +
              (size_t{token} * shape_.successors + rank) * shape_.continuation,
          shape_.continuation};
}

namespace {

class DerivedUnigrams final : public SuccessorTable {
 public:
  explicit DerivedUnigrams(std::shared_ptr<const DerivedNgrams> file) : file_(std::move(file)) {}
  absl::Span<const Successor> After(uint32_t /*token*/) const override { return file_->unigrams(); }

 private:
  const std::shared_ptr<const DerivedNgrams> file_;
};

class DerivedBigrams final : public SuccessorTable {
 public:
  DerivedBigrams(std::shared_ptr<const DerivedNgrams> file, bool extended)
      : file_(std::move(file)), extended_(extended) {}

  absl::Span<const Successor> After(uint32_t token) const override {
    if (token >= file_->shape().vocabulary_size) return {};
    return file_->bigrams(token);
  }
  absl::Span<const uint32_t> Continuation(uint32_t token, size_t rank) const override {
    if (!extended_ || token >= file_->shape().vocabulary_size) return {};
    return file_->continuation(token, rank);
  }

 private:
  const std::shared_ptr<const DerivedNgrams> file_;
  const bool extended_;
};

}  // namespace

std::shared_ptr<const SuccessorTable> UnigramTable(std::shared_ptr<const DerivedNgrams> file) {
  return std::make_shared<DerivedUnigrams>(std::move(file));
}

std::shared_ptr<const SuccessorTable> BigramTable(std::shared_ptr<const DerivedNgrams> file) {
  return std::make_shared<DerivedBigrams>(std::move(file), /*extended=*/false);
}

std::shared_ptr<const SuccessorTable> ExtendedTable(std::shared_ptr<const DerivedNgrams> file) {
  return std::make_shared<DerivedBigrams>(std::move(file), /*extended=*/true);
}

absl::Status NgramFileWriter::Fail(absl::string_view what) const {
  const int error = errno;
  if (error == EWOULDBLOCK) {
    return absl::UnavailableError(absl::StrCat(partial_, ": another process writes it"));
  }
  return base::CannotWrite(partial_, error, what);
}

absl::StatusOr<std::unique_ptr<NgramFileWriter>> NgramFileWriter::Open(const std::string& path,
                                                                       const NgramShape& shape,
                                                                       base::Existing existing) {
  TANDEM_RETURN_IF_ERROR(shape.Validate());
  TANDEM_RETURN_IF_ERROR(base::CheckOutput(path, existing));
  std::unique_ptr<NgramFileWriter> writer(new NgramFileWriter);
  writer->path_ = path;
  writer->partial_ = path + ".partial";
  writer->shape_ = shape;
  writer->existing_ = existing;
  TANDEM_RETURN_IF_ERROR(base::CheckOutput(writer->partial_, base::Existing::kReplace));
  writer->descriptor_ =
      open(writer->partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (writer->descriptor_ < 0) return writer->Fail("open");
  if (flock(writer->descriptor_, LOCK_EX | LOCK_NB) != 0) return writer->Fail("lock");
  NgramFileHeader found = {};
  const NgramFileHeader begun = HeaderOf(shape, kPartialMagic);
  const ssize_t read = pread(writer->descriptor_, &found, sizeof(found), 0);
  if (read < 0) return writer->Fail("read");
  const uint32_t done = std::exchange(found.done, 0);
  struct stat status = {};
  if (fstat(writer->descriptor_, &status) != 0) return writer->Fail("look at");
  if (read == sizeof(found) && std::memcmp(&found, &begun, sizeof(begun)) == 0 &&
      static_cast<uint64_t>(status.st_size) == begun.file_bytes && done <= shape.vocabulary_size) {
    writer->done_ = done;
    return writer;
  }
  const char nothing[sizeof(kMagic)] = {};
  if (read > 0 && std::memcmp(found.magic, kPartialMagic, sizeof(kMagic)) != 0 &&
      std::memcmp(found.magic, nothing, sizeof(kMagic)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(writer->partial_, " is something else than a part of such a file: move it"));
  }
  // The header comes last: what is no whole beginning is begun anew.
  if (ftruncate(writer->descriptor_, 0) != 0) return writer->Fail("empty");
  if (const int error =
          posix_fallocate(writer->descriptor_, 0, static_cast<off_t>(begun.file_bytes));
      error != 0) {
    errno = error;
    return writer->Fail("make room for");
  }
  TANDEM_RETURN_IF_ERROR(writer->Write(0, &begun, sizeof(begun)));
  return writer;
}

NgramFileWriter::~NgramFileWriter() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status NgramFileWriter::Write(uint64_t offset, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = pwrite(descriptor_, from, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail("write");
    from += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::Status NgramFileWriter::WriteUnigrams(absl::Span<const Successor> unigrams) {
  TANDEM_CHECK(unigrams.size() == shape_.unigrams);
  unigrams_written_ = true;
  return Write(UnigramsAt(), unigrams.data(), unigrams.size() * sizeof(Successor));
}

absl::Status NgramFileWriter::WriteTokens(absl::Span<const Successor> bigrams,
                                          absl::Span<const uint32_t> continuations) {
  const size_t tokens = bigrams.size() / shape_.successors;
  TANDEM_CHECK(bigrams.size() == tokens * shape_.successors);
  TANDEM_CHECK(continuations.size() == bigrams.size() * shape_.continuation);
  TANDEM_CHECK(tokens <= shape_.vocabulary_size - done_);
  const uint64_t before = uint64_t{done_} * shape_.successors;
  TANDEM_RETURN_IF_ERROR(Write(BigramsAt(shape_) + before * sizeof(Successor), bigrams.data(),
                               bigrams.size() * sizeof(Successor)));
  TANDEM_RETURN_IF_ERROR(
      Write(ContinuationsAt(shape_) + before * shape_.continuation * sizeof(uint32_t),
            continuations.data(), continuations.size() * sizeof(uint32_t)));
  // The count follows what it counts, also on a machine that loses power.
  if (fdatasync(descriptor_) != 0) return Fail("write");
  done_ += static_cast<uint32_t>(tokens);
  return Write(offsetof(NgramFileHeader, done), &done_, sizeof(done_));
}

absl::Status NgramFileWriter::Finish() {
  TANDEM_CHECK(done_ == shape_.vocabulary_size && unigrams_written_);
  NgramFileHeader header = HeaderOf(shape_, kMagic);
  void* const mapping = mmap(nullptr, header.file_bytes, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (mapping == MAP_FAILED) return Fail("map");
  header.hash = HashOf(header, static_cast<const char*>(mapping) + sizeof(header),
                       header.file_bytes - sizeof(header));
  munmap(mapping, header.file_bytes);
  TANDEM_RETURN_IF_ERROR(Write(0, &header, sizeof(header)));
  if (fsync(descriptor_) != 0) return Fail("write");
  return base::Publish(partial_, path_, existing_);
}

}  // namespace tandem::draft_service
