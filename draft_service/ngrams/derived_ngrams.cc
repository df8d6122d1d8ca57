#include "draft_service/ngrams/derived_ngrams.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/read_file.h"
#include "common/base/status_macros.h"
#include "model/content_hash.h"

namespace tandem::draft_service {
namespace {

static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(Successor) == 8);

constexpr char kMagic[8] = {'T', 'A', 'N', 'D', 'E', 'M', 'N', 'G'};
constexpr char kPartialMagic[8] = {'T', 'A', 'N', 'D', 'E', 'M', 'N', 'P'};
constexpr uint32_t kVersion = 2;                     // 1 had bigrams after an empty context
constexpr size_t kIdBytes = 128;                     // with a zero at the end
constexpr int64_t kMaxFileBytes = int64_t{1} << 40;  // its header says how many they are

struct NgramFileHeader {
  char magic[8];
  uint32_t version;
  uint32_t vocabulary_size, successors, continuation, unigrams;
  uint32_t done;  // of a part: tokens that it has
  uint64_t file_bytes;
  uint64_t hash;  // of all of it, with 0 in this place
  char model_id[kIdBytes];
  char tokenizer_id[kIdBytes];
};
static_assert(sizeof(NgramFileHeader) == 48 + 2 * kIdBytes);

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

absl::Span<const Successor> After(const DerivedNgrams& derived, uint32_t token) {
  return absl::MakeConstSpan(derived.bigrams)
      .subspan(size_t{token} * derived.shape.successors, derived.shape.successors);
}

bool HasMagic(absl::string_view bytes, const char (&magic)[8]) {
  return bytes.size() >= sizeof(magic) && std::memcmp(bytes.data(), magic, sizeof(magic)) == 0;
}

std::string PartialOf(const std::string& path) { return path + ".partial"; }

// Of a whole file or of a part, of which `bytes` is all.
uint64_t HashOf(NgramFileHeader header, absl::string_view bytes) {
  header.hash = 0;
  bytes.remove_prefix(sizeof(header));
  return model::HashBytes(bytes.data(), bytes.size(), model::HashBytes(&header, sizeof(header), 0));
}

// All of `bytes`, which must begin with this magic.
absl::StatusOr<DerivedNgrams> ParseAs(const char (&magic)[8], absl::string_view bytes) {
  if (!HasMagic(bytes, magic)) {
    return absl::InvalidArgumentError("is not a file of `tandem derive-ngrams`");
  }
  NgramFileHeader header;
  if (bytes.size() < sizeof(header)) {
    return absl::DataLossError(
        absl::StrCat("has ", bytes.size(), " bytes, and its header has ", sizeof(header)));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.version != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("has version ", header.version, "; this reads ",
                                                   kVersion, ": derive it again"));
  }
  const NgramShape shape = ShapeOf(header);
  if (const absl::Status valid = shape.Validate(); !valid.ok()) {
    return absl::DataLossError(absl::StrCat("its header: ", valid.message()));
  }
  if (header.file_bytes != shape.FileBytes() || bytes.size() != header.file_bytes) {
    return absl::DataLossError(absl::StrCat("has ", bytes.size(), " bytes, and its header says ",
                                            shape.FileBytes(), ": it was cut or changed"));
  }
  if (HashOf(header, bytes) != header.hash) {
    return absl::DataLossError("its content is not what was written");
  }
  DerivedNgrams derived(shape);
  derived.done = header.done;
  bytes.remove_prefix(sizeof(header));
  const auto take = [&bytes](auto& to) {
    const size_t size = to.size() * sizeof(to[0]);
    if (size > 0) std::memcpy(to.data(), bytes.data(), size);
    bytes.remove_prefix(size);
  };
  take(derived.unigrams);
  take(derived.bigrams);
  take(derived.continuations);
  return derived;
}

// What drafters rely on, whoever wrote the file.
absl::Status CheckTokens(const DerivedNgrams& derived) {
  const uint32_t vocabulary = derived.shape.vocabulary_size;
  const auto good = [vocabulary](absl::Span<const Successor> successors) {
    for (size_t i = 0; i < successors.size(); ++i) {
      const Successor& one = successors[i];
      if (one.token >= vocabulary || one.weight == 0) return false;
      if (i > 0 && one.weight > successors[i - 1].weight) return false;
      for (size_t j = 0; j < i; ++j) {
        if (successors[j].token == one.token) return false;
      }
    }
    return true;
  };
  bool all = good(derived.unigrams);
  for (uint32_t token = 0; all && token < vocabulary; ++token) all = good(After(derived, token));
  all = all && std::all_of(derived.continuations.begin(), derived.continuations.end(),
                           [vocabulary](uint32_t token) { return token < vocabulary; });
  if (all) return absl::OkStatus();
  return absl::DataLossError("a token of it is out of range, comes twice or has no weight");
}

absl::StatusOr<DerivedNgrams> Parse(absl::string_view bytes, absl::string_view tokenizer_id) {
  if (HasMagic(bytes, kPartialMagic)) {
    return absl::InvalidArgumentError(
        "is a part of a file; run the same `tandem derive-ngrams` again, which finishes it");
  }
  if (bytes.empty()) return absl::DataLossError("is empty");
  TANDEM_ASSIGN_OR_RETURN(DerivedNgrams derived, ParseAs(kMagic, bytes));
  if (derived.shape.tokenizer_id != tokenizer_id) {
    return absl::FailedPreconditionError(
        absl::StrCat("is of a model with the tokenizer ", derived.shape.tokenizer_id,
                     "; here it is ", tokenizer_id, ": derive it from a model with this one"));
  }
  TANDEM_RETURN_IF_ERROR(CheckTokens(derived));
  return derived;
}

class DerivedBigrams final : public SuccessorTable {
 public:
  DerivedBigrams(std::shared_ptr<const DerivedNgrams> derived, bool extended)
      : derived_(std::move(derived)), extended_(extended) {}

  absl::Span<const Successor> After(uint32_t token) const override {
    if (token >= derived_->shape.vocabulary_size) return {};
    return draft_service::After(*derived_, token);
  }
  absl::Span<const uint32_t> Continuation(uint32_t token, size_t rank) const override {
    const NgramShape& shape = derived_->shape;
    if (!extended_ || token >= shape.vocabulary_size) return {};
    return absl::MakeConstSpan(derived_->continuations)
        .subspan((size_t{token} * shape.successors + rank) * shape.continuation,
                 shape.continuation);
  }

 private:
  const std::shared_ptr<const DerivedNgrams> derived_;
  const bool extended_;
};

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
  const uint64_t pairs = uint64_t{vocabulary_size} * successors;
  return sizeof(NgramFileHeader) + (unigrams + pairs) * sizeof(Successor) +
         pairs * continuation * sizeof(uint32_t);
}

DerivedNgrams::DerivedNgrams(const NgramShape& shape)
    : shape(shape),
      unigrams(shape.unigrams),
      bigrams(size_t{shape.vocabulary_size} * shape.successors),
      continuations(bigrams.size() * shape.continuation) {}

absl::StatusOr<std::shared_ptr<const DerivedNgrams>> ReadNgrams(const std::string& path,
                                                                absl::string_view tokenizer_id) {
  TANDEM_ASSIGN_OR_RETURN(const std::string bytes, base::ReadRegularFile(path, kMaxFileBytes));
  auto derived = Parse(bytes, tokenizer_id);
  if (derived.ok()) return std::make_shared<const DerivedNgrams>(*std::move(derived));
  return absl::Status(derived.status().code(),
                      absl::StrCat(path, ": ", derived.status().message()));
}

std::shared_ptr<const SuccessorTable> UnigramTable(const DerivedNgrams& derived) {
  return std::make_shared<UnigramSuccessors>(derived.unigrams);
}

std::shared_ptr<const SuccessorTable> BigramTable(std::shared_ptr<const DerivedNgrams> derived) {
  return std::make_shared<DerivedBigrams>(std::move(derived), /*extended=*/false);
}

std::shared_ptr<const SuccessorTable> ExtendedTable(std::shared_ptr<const DerivedNgrams> derived) {
  return std::make_shared<DerivedBigrams>(std::move(derived), /*extended=*/true);
}

absl::StatusOr<DerivedNgrams> BeginNgrams(const std::string& path, const NgramShape& shape,
                                          base::Existing existing) {
  TANDEM_RETURN_IF_ERROR(shape.Validate());
  TANDEM_RETURN_IF_ERROR(base::CheckOutput(path, existing));
  const std::string partial = PartialOf(path);
  TANDEM_RETURN_IF_ERROR(base::CheckOutput(partial, base::Existing::kReplace));
  TANDEM_ASSIGN_OR_RETURN(const std::string bytes,
                          base::ReadRegularFileIfThere(partial, kMaxFileBytes));
  if (!bytes.empty() && !HasMagic(bytes, kPartialMagic)) {
    return absl::FailedPreconditionError(
        absl::StrCat(partial, " is something else than a part of such a file: move it"));
  }
  auto part = ParseAs(kPartialMagic, bytes);
  if (part.ok() && part->shape == shape && part->done < shape.vocabulary_size) return part;
  return DerivedNgrams(shape);  // what is not a whole part of this one is begun anew
}

absl::Status SaveNgrams(const DerivedNgrams& derived, const std::string& path,
                        base::Existing existing) {
  const bool whole = derived.done == derived.shape.vocabulary_size;
  NgramFileHeader header = HeaderOf(derived.shape, whole ? kMagic : kPartialMagic);
  header.done = whole ? 0 : derived.done;
  std::string bytes;
  bytes.reserve(header.file_bytes);
  const auto append = [&bytes](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
  };
  append(&header, sizeof(header));
  append(derived.unigrams.data(), derived.unigrams.size() * sizeof(Successor));
  append(derived.bigrams.data(), derived.bigrams.size() * sizeof(Successor));
  append(derived.continuations.data(), derived.continuations.size() * sizeof(uint32_t));
  TANDEM_CHECK(bytes.size() == header.file_bytes);
  header.hash = HashOf(header, bytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
  if (!whole) return base::WriteFile(PartialOf(path), bytes, base::Existing::kReplace);
  TANDEM_RETURN_IF_ERROR(base::WriteFile(path, bytes, existing));
  std::error_code error;  // what is left of it does no harm
  std::filesystem::remove(PartialOf(path), error);
  return absl::OkStatus();
}

}  // namespace tandem::draft_service
