#include "tests/support/table_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "model/token_tree.h"

namespace tandem::testing {
namespace {

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

uint64_t Hash(uint64_t seed, uint32_t a, uint32_t b, uint32_t c) {
  uint64_t h = Mix(seed + 0x9e37'79b9'7f4a'7c15);
  h = Mix(h ^ (uint64_t{a} + 0x2545'f491'4f6c'dd1d));
  h = Mix(h ^ (uint64_t{b} + 0xd6e8'feb8'6659'fd93));
  return Mix(h ^ (uint64_t{c} + 0xa076'1d64'78bd'642f));
}

// Nearly normal, variance 1, from sums of integers: the same bits on every machine.
double Bell(uint64_t h) {
  int64_t sum =
      static_cast<int64_t>((h & 0xffff) + ((h >> 16) & 0xffff) + ((h >> 32) & 0xffff) + (h >> 48)) -
      2 * 65535;
  return static_cast<double>(sum) * (1.7320508075688772 / 65536);
}

class TableCache final : public model::Cache {
 public:
  TableCache(const TableModel* owner, int max_length, int64_t room,
             std::shared_ptr<std::atomic<int>> live, std::shared_ptr<std::atomic<int64_t>> reserved)
      : owner_(owner),
        max_length_(max_length),
        room_(room),
        live_(std::move(live)),
        reserved_(std::move(reserved)) {
    *reserved_ += room_;
  }
  ~TableCache() override {
    *reserved_ -= room_;
    --*live_;
  }

  int length() const override { return static_cast<int>(tokens_.size()); }
  int max_length() const override { return max_length_; }
  void Truncate(int length) override {
    TANDEM_CHECK(length >= shared_ && length <= this->length())
        << "Truncate(" << length << ") of a cache that holds " << this->length() << " and shares "
        << shared_;
    tokens_.resize(length);
    last_part_.Truncate(length);
  }
  void Keep(absl::Span<const int> path) override {
    const int length = last_part_.Keep(path);
    for (size_t i = 0; i < path.size(); ++i) {
      tokens_[last_part_.base() + i] = tokens_[last_part_.base() + path[i]];
    }
    tokens_.resize(length);
  }

  int shared() const override { return shared_; }
  void SetShared(int shared) { shared_ = std::max(shared_, shared); }

  const TableModel* owner() const { return owner_; }
  const std::vector<uint32_t>& tokens() const { return tokens_; }
  bool branches() const { return last_part_.branches(); }
  const model::LastPart& last_part() const { return last_part_; }
  void Append(absl::Span<const uint32_t> tokens, absl::Span<const int> parents, bool grows) {
    const int rows = static_cast<int>(tokens.size());
    if (grows) {
      last_part_.Grow(rows, parents);
    } else {
      last_part_.Set(length(), rows, parents);
    }
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }

 private:
  const TableModel* const owner_;
  const int max_length_;
  const int64_t room_;  // that it reserves
  std::shared_ptr<std::atomic<int>> live_;
  std::shared_ptr<std::atomic<int64_t>> reserved_;
  std::vector<uint32_t> tokens_;
  int shared_ = 0;
  model::LastPart last_part_;
};

// The tokens that row i of a part follows, itself included.
std::vector<uint32_t> Path(const TableCache& cache, const model::ForwardPart& part, int i) {
  std::vector<uint32_t> path;
  const int open = part.grows ? cache.last_part().rows() : 0;
  const absl::Span<const uint32_t> tokens = cache.tokens();
  const absl::Span<const uint32_t> held = tokens.first(tokens.size() - open);
  for (int row = open + i; row >= 0;) {
    if (row < open) {
      path.push_back(tokens[held.size() + row]);
      row = cache.last_part().parent(row);
    } else {
      path.push_back(part.tokens[row - open]);
      row = part.parents.empty() ? row - 1 : part.parents[row - open];
    }
  }
  path.insert(path.end(), held.rbegin(), held.rend());
  std::reverse(path.begin(), path.end());
  return path;
}

TableCache& Cast(const TableModel* model, model::Cache* cache) {
  TANDEM_CHECK(cache != nullptr) << "a ForwardPart without a cache";
  auto* table_cache = dynamic_cast<TableCache*>(cache);
  TANDEM_CHECK(table_cache != nullptr && table_cache->owner() == model)
      << "a cache of another model";
  return *table_cache;
}

}  // namespace

TableModel::TableModel(TableModelOptions options)
    : options_(std::move(options)),
      live_caches_(std::make_shared<std::atomic<int>>(0)),
      reserved_(std::make_shared<std::atomic<int64_t>>(0)) {
  TANDEM_CHECK(options_.vocabulary_size >= 2 && options_.vocabulary_size <= 65536);
  TANDEM_CHECK(options_.context_length >= 1 && options_.max_rows >= 1);
  for (uint32_t token : options_.eos_token_ids) TANDEM_CHECK(token < options_.vocabulary_size);
  info_.vocabulary_size = options_.vocabulary_size;
  info_.context_length = options_.context_length;
  info_.eos_token_ids = options_.eos_token_ids;
  info_.model_id = options_.model_id;
  if (info_.model_id.empty()) {
    info_.model_id =
        absl::StrCat("table-", options_.vocabulary_size, "-", options_.seed, "-",
                     options_.peakedness, "-", options_.noise, "-", options_.noise_seed);
  }
  info_.numerics_id = "table";
}

TableModel::~TableModel() = default;

absl::StatusOr<std::unique_ptr<model::Cache>> TableModel::NewCache(int max_length) {
  TANDEM_CHECK(max_length >= 1 && max_length <= static_cast<int>(options_.context_length))
      << "NewCache(" << max_length << "), context length " << options_.context_length;
  const int64_t page = options_.page_tokens;
  const int64_t room = (max_length + page - 1) / page * page;
  if (options_.pool_tokens > 0 && *reserved_ + room > options_.pool_tokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there is room for ", options_.pool_tokens - *reserved_, " of ",
                     options_.pool_tokens, " tokens; this sequence asks for ", room));
  }
  if (++*live_caches_ > options_.max_caches) {
    --*live_caches_;
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", options_.max_caches, " caches are taken"));
  }
  return std::make_unique<TableCache>(this, max_length, room, live_caches_, reserved_);
}

std::optional<model::CacheRoom> TableModel::room() const {
  if (options_.pool_tokens == 0) return std::nullopt;
  return model::CacheRoom{options_.pool_tokens, options_.pool_tokens - *reserved_,
                          options_.page_tokens};
}

std::vector<float> TableModel::LogitsAfter(absl::Span<const uint32_t> context) const {
  const uint32_t none = options_.vocabulary_size;  // before the first token
  size_t n = context.size();
  uint32_t a = n >= 2 ? context[n - 2] : none;
  uint32_t b = n >= 1 ? context[n - 1] : none;
  std::vector<float> logits(options_.vocabulary_size);
  for (uint32_t token = 0; token < logits.size(); ++token) {
    double value = options_.peakedness * Bell(Hash(options_.seed, a, b, token));
    if (options_.noise != 0) {
      value += options_.noise * Bell(Hash(~options_.noise_seed, a, b, token));
    }
    logits[token] = static_cast<float>(value);
  }
  return logits;
}

absl::Status TableModel::Validate(absl::Span<const model::ForwardPart> parts) const {
  TANDEM_CHECK(!parts.empty()) << "a pass without parts";
  size_t rows = 0;
  std::vector<const model::Cache*> seen;
  absl::Status status;
  for (const model::ForwardPart& part : parts) {
    TableCache& cache = Cast(this, part.cache);
    TANDEM_CHECK(!part.tokens.empty()) << "a ForwardPart without tokens";
    TANDEM_CHECK(part.first_logits_row >= 0 &&
                 part.first_logits_row <= static_cast<int>(part.tokens.size()))
        << "first_logits_row " << part.first_logits_row << " of " << part.tokens.size();
    TANDEM_CHECK(part.grows || !cache.branches())
        << "a cache that holds a tree, of which no path was kept";
    status.Update(model::CheckParents(part.parents, part.tokens.size(),
                                      part.grows ? cache.last_part().rows() : 0));
    seen.push_back(part.cache);
    rows += part.tokens.size();
    if (cache.length() + static_cast<int>(part.tokens.size()) > cache.max_length()) {
      status.Update(absl::InvalidArgumentError(
          absl::StrCat("a cache of ", cache.max_length(), " tokens holds ", cache.length(),
                       " and has no room for ", part.tokens.size())));
    }
    for (uint32_t token : part.tokens) {
      if (token >= options_.vocabulary_size) {
        status.Update(absl::InvalidArgumentError(absl::StrCat(
            "token ", token, " is not below the vocabulary's ", options_.vocabulary_size)));
      }
    }
  }
  std::sort(seen.begin(), seen.end());
  TANDEM_CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end())
      << "a cache twice in one pass";
  TANDEM_CHECK(rows <= static_cast<size_t>(options_.max_rows))
      << rows << " rows in one pass, max_rows() " << options_.max_rows;
  return status;
}

int TableModel::Recall(model::Cache& cache, const model::CachePrefix& prefix) {
  TableCache& mine = Cast(this, &cache);
  TANDEM_CHECK(mine.length() == 0) << "Recall of a cache that holds " << mine.length();
  size_t best = 0;
  for (const auto& [scope, tokens] : shared_) {
    if (scope != prefix.scope) continue;
    const auto end =
        std::mismatch(tokens.begin(), tokens.end(), prefix.tokens.begin(), prefix.tokens.end());
    best = std::max(best, static_cast<size_t>(end.first - tokens.begin()));
  }
  best = best / static_cast<size_t>(options_.page_tokens) * options_.page_tokens;
  mine.Append(prefix.tokens.first(best), {}, /*grows=*/false);
  mine.SetShared(static_cast<int>(best));
  return static_cast<int>(best);
}

void TableModel::Share(model::Cache& cache, const model::CachePrefix& prefix) {
  TableCache& mine = Cast(this, &cache);
  TANDEM_CHECK(prefix.tokens.size() <= mine.tokens().size() &&
               std::equal(prefix.tokens.begin(), prefix.tokens.end(), mine.tokens().begin()))
      << "Share of other tokens than the cache holds";
  const size_t page = static_cast<size_t>(options_.page_tokens);
  const size_t whole = prefix.tokens.size() / page * page;
  shared_.emplace_back(std::string(prefix.scope),
                       std::vector<uint32_t>(prefix.tokens.begin(), prefix.tokens.begin() + whole));
  mine.SetShared(static_cast<int>(whole));
}

absl::StatusOr<model::Logits> TableModel::Forward(absl::Span<const model::ForwardPart> parts) {
  TANDEM_CHECK(!in_pass_.exchange(true)) << "two threads in a pass";
  struct Leave {
    std::atomic<bool>& stepping;
    ~Leave() { stepping = false; }
  } leave{in_pass_};
  absl::Status status = Validate(parts);
  if (status.ok() && options_.before_pass) status = options_.before_pass(parts);
  if (!status.ok()) return status;

  size_t logits_rows = 0;
  for (const model::ForwardPart& part : parts) {
    logits_rows += part.tokens.size() - part.first_logits_row;
    rows_ += part.tokens.size();
  }
  logits_ = std::make_unique<float[]>(logits_rows * options_.vocabulary_size + 1);
  float* out = logits_.get();
  for (const model::ForwardPart& part : parts) {
    TableCache& cache = Cast(this, part.cache);
    for (int i = part.first_logits_row; i < static_cast<int>(part.tokens.size()); ++i) {
      std::vector<float> row = LogitsAfter(Path(cache, part, i));
      out = std::copy(row.begin(), row.end(), out);
    }
    cache.Append(part.tokens, part.parents, part.grows);
  }
  ++passes_;
  logits_rows_ += logits_rows;
  return model::Logits{logits_.get(), static_cast<int>(logits_rows),
                       static_cast<int>(options_.vocabulary_size)};
}

}  // namespace tandem::testing
