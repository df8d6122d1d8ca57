#include "draft_service/ngrams/corpus_ngrams.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/tokenizer.h"

namespace tandem::draft_service {
namespace {

// What is tokenised at once, at least, where the file is as long.
constexpr size_t kPieceBytes = 256 * 1024;

struct Counted {
  uint32_t token;
  uint64_t count;
};

// The commonest, with weights that fit.
std::vector<Successor> Commonest(std::vector<Counted> counted) {
  std::sort(counted.begin(), counted.end(), [](const Counted& a, const Counted& b) {
    return a.count != b.count ? a.count > b.count : a.token < b.token;
  });
  if (counted.size() > SuccessorTable::kMaxSuccessors) {
    counted.resize(SuccessorTable::kMaxSuccessors);
  }
  int shift = 0;
  while (!counted.empty() && counted[0].count >> shift > UINT32_MAX) ++shift;
  std::vector<Successor> successors;
  successors.reserve(counted.size());
  for (const Counted& one : counted) {
    successors.push_back(
        {one.token, static_cast<uint32_t>(std::max<uint64_t>(1, one.count >> shift))});
  }
  return successors;
}

class CorpusBigrams final : public SuccessorTable {
 public:
  CorpusBigrams(std::vector<NgramCounter::Bigram> counted, size_t vocabulary_size,
                std::shared_ptr<const SuccessorTable> otherwise)
      : begins_(vocabulary_size + 1), otherwise_(std::move(otherwise)) {
    std::sort(counted.begin(), counted.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    size_t next = 0;
    for (uint32_t first = 0; first < vocabulary_size; ++first) {
      std::vector<Counted> followers;
      for (; next < counted.size() && counted[next].first == first; ++next) {
        followers.push_back({counted[next].second, counted[next].count});
      }
      const std::vector<Successor> commonest = Commonest(std::move(followers));
      successors_.insert(successors_.end(), commonest.begin(), commonest.end());
      begins_[first + 1] = static_cast<uint32_t>(successors_.size());
    }
    successors_.shrink_to_fit();
  }

  absl::Span<const Successor> After(uint32_t token) const override {
    if (token + size_t{1} < begins_.size() && begins_[token] < begins_[token + 1]) {
      return absl::MakeConstSpan(successors_)
          .subspan(begins_[token], begins_[token + 1] - begins_[token]);
    }
    return otherwise_ == nullptr ? absl::Span<const Successor>() : otherwise_->After(token);
  }

 private:
  std::vector<uint32_t> begins_;  // by token, in successors_; one more
  std::vector<Successor> successors_;
  const std::shared_ptr<const SuccessorTable> otherwise_;
};

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// How much of the piece to tokenise: up to its last line's end, or its last space, or its last
// whole character, so that no token is cut in two where that can be seen.
size_t WholePart(const std::string& piece) {
  for (const char* at : {"\n", " "}) {
    const size_t last = piece.find_last_of(at);
    // A space belongs to the word after it.
    if (last != std::string::npos && last > 0) return *at == '\n' ? last + 1 : last;
  }
  size_t end = piece.size();
  while (end > 0 && piece.size() - end < 3 && (piece[end - 1] & 0xC0) == 0x80) --end;
  return end > 0 && (piece[end - 1] & 0x80) != 0 ? std::max<size_t>(end - 1, 1) : piece.size();
}

}  // namespace

std::shared_ptr<const SuccessorTable> UnigramTable(const NgramCounter& counted) {
  std::vector<Counted> all;
  for (uint32_t token = 0; token < counted.unigrams().size(); ++token) {
    if (counted.unigrams()[token] > 0) all.push_back({token, counted.unigrams()[token]});
  }
  return std::make_shared<UnigramSuccessors>(Commonest(std::move(all)));
}

std::shared_ptr<const SuccessorTable> BigramTable(const NgramCounter& counted,
                                                  std::shared_ptr<const SuccessorTable> otherwise) {
  return std::make_shared<CorpusBigrams>(counted.Bigrams(), counted.unigrams().size(),
                                         std::move(otherwise));
}

absl::StatusOr<NgramCounter> CountCorpus(const std::string& path,
                                         const tokenizer::Tokenizer& tokenizer,
                                         const CorpusOptions& options) {
  const auto wrong = [&path](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("the corpus ", path, what));
  };
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  const bool regular = std::filesystem::is_regular_file(status);
  if (std::filesystem::exists(status) && !regular) return wrong(" is not a regular file");
  const std::unique_ptr<std::FILE, Close> file(regular ? std::fopen(path.c_str(), "rb") : nullptr);
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot open the corpus ", path, ": ",
                                            error ? error.message() : std::strerror(errno)));
  }
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) return wrong(absl::StrCat(": ", error.message()));

  const uint32_t vocabulary =
      options.vocabulary_size == 0 ? tokenizer.vocabulary_size() : options.vocabulary_size;
  NgramCounter counter(vocabulary, options.max_bigrams);
  std::string piece;
  uint64_t begin = 0;  // of the piece in the file
  for (bool more = true; more;) {
    const size_t left = piece.size();
    piece.resize(left + kPieceBytes);
    const size_t got = std::fread(piece.data() + left, 1, kPieceBytes, file.get());
    if (std::ferror(file.get()) != 0) return wrong(absl::StrCat(": ", std::strerror(errno)));
    piece.resize(left + got);
    more = got == kPieceBytes;
    const size_t part = more ? WholePart(piece) : piece.size();
    if (part == 0) continue;
    const auto tokens = tokenizer.Encode(std::string_view(piece).substr(0, part), false);
    if (!tokens.ok()) {
      return wrong(
          absl::StrCat(": bytes ", begin, " to ", begin + part, ": ", tokens.status().message()));
    }
    counter.Add(*tokens);
    piece.erase(0, part);
    begin += part;
    if (options.progress) options.progress(begin, std::max(size, begin));
  }
  if (counter.tokens() == 0) return wrong(begin == 0 ? " is empty" : " has no token");
  return counter;
}

}  // namespace tandem::draft_service
