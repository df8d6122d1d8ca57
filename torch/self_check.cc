#include "torch/self_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "torch/graphs/pass_inputs.h"

namespace tandem::torch {
namespace {

using model::Cache;
using model::ForwardPart;
using model::LanguageModel;
using Rows = std::vector<std::vector<float>>;

constexpr int kTextLength = 40;
constexpr int kCompanions = 5;
// Lengths of the passes that a text of kTextLength tokens is read in: of one row at its beginning,
// in its middle and at its end, and of a remainder behind whole vectors.
constexpr size_t kCuts[] = {1, 1, 3, 7, 17, 1, 3, 1, 5, 1};
constexpr size_t kLongCuts[] = {1, 1, 1, 3};  // of the end of the long text
constexpr size_t kLongRows = 6;               // of the long text that are compared
constexpr size_t kRepeated = 8;               // rows of the pass that comes again
constexpr int kShortPass = 17;

std::vector<uint32_t> RandomText(std::mt19937& random, int length, uint32_t vocabulary) {
  std::vector<uint32_t> text(static_cast<size_t>(length));
  for (uint32_t& token : text) token = static_cast<uint32_t>(random()) % vocabulary;
  return text;
}

absl::StatusOr<Rows> Computed(LanguageModel& model, absl::Span<const ForwardPart> parts) {
  TANDEM_ASSIGN_OR_RETURN(const model::Logits logits, model.Forward(parts));
  Rows rows;
  for (int i = 0; i < logits.rows; ++i) {
    rows.emplace_back(logits.row(i).begin(), logits.row(i).end());
  }
  return rows;
}

// Lets the cache hold `length` tokens of a text. What is missing comes from passes that any device
// takes, and gets no logits.
absl::Status HoldBeginning(LanguageModel& model, Cache& cache, absl::Span<const uint32_t> text,
                           size_t length) {
  constexpr size_t kChunk = 64;
  const size_t chunk = std::min(kChunk, static_cast<size_t>(model.max_rows()));
  cache.Truncate(std::min(cache.length(), static_cast<int>(length)));
  while (static_cast<size_t>(cache.length()) < length) {
    const auto at = static_cast<size_t>(cache.length());
    const absl::Span<const uint32_t> some = text.subspan(at, std::min(chunk, length - at));
    const ForwardPart part{&cache, some, static_cast<int>(some.size())};
    TANDEM_RETURN_IF_ERROR(model.Forward({part}).status());
  }
  return absl::OkStatus();
}

// The rows of a text behind what the cache holds of it, in passes of these lengths.
absl::StatusOr<Rows> ReadOn(LanguageModel& model, Cache& cache, absl::Span<const uint32_t> text,
                            absl::Span<const size_t> cuts) {
  Rows rows;
  for (const size_t cut : cuts) {
    const auto at = static_cast<size_t>(cache.length());
    TANDEM_ASSIGN_OR_RETURN(Rows some, Computed(model, {{&cache, text.subspan(at, cut), 0}}));
    for (std::vector<float>& row : some) rows.push_back(std::move(row));
  }
  return rows;
}

// All rows of a text.
absl::StatusOr<Rows> Read(LanguageModel& model, absl::Span<const uint32_t> text,
                          absl::Span<const size_t> cuts) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Cache> cache,
                          model.NewCache(static_cast<int>(text.size())));
  return ReadOn(model, *cache, text, cuts);
}

absl::Status SameBits(absl::Span<const std::vector<float>> rows,
                      absl::Span<const std::vector<float>> wanted) {
  if (rows.size() != wanted.size()) {
    return absl::DataLossError(absl::StrCat(rows.size(), " rows, not ", wanted.size()));
  }
  size_t different = 0;
  size_t first = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t bytes = wanted[i].size() * sizeof(float);
    if (std::memcmp(rows[i].data(), wanted[i].data(), bytes) == 0) continue;
    if (different++ == 0) first = i;
  }
  if (different == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(different, " of ", rows.size(),
                                          " rows have other bits, the first is row ", first));
}

double Deviation(absl::Span<const float> row, absl::Span<const float> wanted) {
  double difference = 0;
  double largest = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double apart = std::abs(static_cast<double>(row[i]) - wanted[i]);
    if (!(apart <= difference)) difference = apart;  // a NaN stays
    largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
  }
  return difference / largest;
}

absl::Status Near(absl::Span<const std::vector<float>> rows,
                  absl::Span<const std::vector<float>> wanted, double tolerance) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const double deviation = Deviation(rows[i], wanted[i]);
    if (deviation <= tolerance) continue;
    return absl::DataLossError(absl::StrFormat(
        "row %d is off by %.2g of its largest logit, more than %.2g", i, deviation, tolerance));
  }
  return absl::OkStatus();
}

// Of the beginnings of several texts: rows as numbers.
using Readings = std::vector<std::vector<size_t>>;

// Two texts, or as many as rows of the longest pass require, of which passes of `tiles` read the
// beginnings side by side. A row of a large vocabulary is held as a number.
class SideBySide {
 public:
  SideBySide(LanguageModel& model, uint32_t vocabulary) {
    const int context = static_cast<int>(model.info().context_length);
    most_rows_ = std::min({model.max_rows(), kMostCheckedRows, kMostTexts * context});
    const int count = std::max(2, (most_rows_ + context - 1) / context);
    std::mt19937 random(20261129);
    for (int i = 0; i < count; ++i) {
      texts_.push_back(RandomText(random, Share(0, count, most_rows_), vocabulary));
    }
  }

  int most_rows() const { return most_rows_; }

  // The first rows of all, `rows` together, in passes of at most `pass_rows`.
  absl::StatusOr<Readings> Read(LanguageModel& model, int rows, int pass_rows) const {
    const size_t count = texts_.size();
    std::vector<std::unique_ptr<Cache>> caches(count);
    for (auto& cache : caches) {
      TANDEM_ASSIGN_OR_RETURN(cache, model.NewCache(static_cast<int>(texts_[0].size())));
    }
    Readings read(count);
    for (int left_of_all = rows; left_of_all > 0;) {
      std::vector<ForwardPart> parts;
      std::vector<size_t> taken(count);
      int left = std::min(pass_rows, left_of_all);
      left_of_all -= left;
      for (size_t i = 0; i < count && left > 0; ++i) {
        const int end = Share(static_cast<int>(i), static_cast<int>(count), rows);
        const int some = std::min(left, end - static_cast<int>(read[i].size()));
        if (some == 0) continue;
        taken[i] = static_cast<size_t>(some);
        left -= some;
        parts.push_back(
            {caches[i].get(), absl::MakeSpan(texts_[i]).subspan(read[i].size(), taken[i]), 0});
      }
      TANDEM_ASSIGN_OR_RETURN(const model::Logits logits, model.Forward(parts));
      int row = 0;
      for (size_t i = 0; i < count; ++i) {
        for (size_t n = 0; n < taken[i]; ++n) read[i].push_back(NumberOf(logits.row(row++)));
      }
    }
    return read;
  }

 private:
  static constexpr int kMostTexts = 16;

  // Of `rows`, those of text `i` of `count`.
  static int Share(int i, int count, int rows) { return rows / count + (i < rows % count ? 1 : 0); }

  static size_t NumberOf(absl::Span<const float> row) {
    return absl::HashOf(
        absl::string_view(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float)));
  }

  int most_rows_ = 0;
  std::vector<std::vector<uint32_t>> texts_;
};

// The first row of `read` that is not the same row of `wanted`, which may have more.
std::optional<size_t> FirstDifference(const Readings& read, const Readings& wanted) {
  size_t row = 0;
  for (size_t text = 0; text < read.size(); ++text) {
    for (size_t i = 0; i < read[text].size(); ++i, ++row) {
      if (read[text][i] != wanted[text][i]) return row;
    }
  }
  return std::nullopt;
}

// A pass of each size on the one device, and passes of `pass_rows` on the other; 0: the same.
absl::Status SameTiles(LanguageModel& device, LanguageModel& other, uint32_t vocabulary, int tile,
                       int pass_rows) {
  const SideBySide texts(device, vocabulary);
  Readings wanted;
  if (pass_rows > 0) {
    TANDEM_ASSIGN_OR_RETURN(wanted, texts.Read(other, texts.most_rows(), pass_rows));
  }
  for (const int size : RowSizes(tile, texts.most_rows())) {
    const int rows = std::min(size, texts.most_rows());
    TANDEM_ASSIGN_OR_RETURN(const Readings read, texts.Read(device, rows, rows));
    if (pass_rows == 0) {
      TANDEM_ASSIGN_OR_RETURN(wanted, texts.Read(other, rows, rows));
    }
    if (const auto row = FirstDifference(read, wanted); row.has_value()) {
      return absl::DataLossError(
          absl::StrCat("row ", *row, " of a pass of ", rows, " rows has other bits"));
    }
  }
  return absl::OkStatus();
}

// Texts of one device, and their rows when each was read alone. What several checks compare with is
// computed once.
class Checker {
 public:
  Checker(LanguageModel& device, LanguageModel& reference, double tolerance, const CheckSize& size)
      : device_(device), reference_(reference), tolerance_(tolerance), size_(size) {
    for (int i = 0; i < kCompanions; ++i) {
      texts_.push_back(RandomText(random_, kTextLength, Vocabulary()));
    }
  }

  absl::Status Parity() {
    TANDEM_ASSIGN_OR_RETURN(read_, Read(device_, texts_[0], kCuts));
    TANDEM_ASSIGN_OR_RETURN(const Rows wanted, Read(reference_, texts_[0], {texts_[0].size()}));
    return Near(read_, wanted, tolerance_);
  }

  // After Parity.
  absl::Status Cuts() {
    TANDEM_ASSIGN_OR_RETURN(const Rows rows, Read(device_, texts_[0], {texts_[0].size()}));
    return SameBits(rows, read_);
  }

  absl::Status Long() {
    const size_t length =
        std::min({static_cast<size_t>(size_.long_text), size_t{device_.info().context_length},
                  size_t{reference_.info().context_length}});
    const auto text = RandomText(random_, static_cast<int>(length), Vocabulary());
    const auto end_of = [&](LanguageModel& model, Cache& cache, absl::Span<const size_t> cuts) {
      const absl::Status held = HoldBeginning(model, cache, text, length - kLongRows);
      return held.ok() ? ReadOn(model, cache, text, cuts) : held;
    };
    TANDEM_ASSIGN_OR_RETURN(const auto cache, device_.NewCache(static_cast<int>(length)));
    TANDEM_ASSIGN_OR_RETURN(const Rows rows, end_of(device_, *cache, {kLongRows}));
    TANDEM_ASSIGN_OR_RETURN(const auto wanted, reference_.NewCache(static_cast<int>(length)));
    TANDEM_ASSIGN_OR_RETURN(const Rows reference, end_of(reference_, *wanted, {kLongRows}));
    TANDEM_RETURN_IF_ERROR(Near(rows, reference, tolerance_));
    TANDEM_ASSIGN_OR_RETURN(const Rows cut, end_of(device_, *cache, kLongCuts));
    return SameBits(cut, rows);
  }

  absl::Status Company() {
    TANDEM_RETURN_IF_ERROR(ReadAlone());
    return SameAsAlone({0, 1, 2, 3, 4});
  }

  // After Company, whose caches it gives back.
  absl::Status Order() {
    const absl::Status same = SameAsAlone({3, 1, 4, 0, 2});
    for (std::unique_ptr<Cache>& cache : caches_) cache.reset();
    return same;
  }

  // Thrice, because a device may take another way after the first time.
  absl::Status Repeat() {
    TANDEM_ASSIGN_OR_RETURN(const auto cache, device_.NewCache(kTextLength));
    const absl::Span<const uint32_t> text(texts_[0]);
    const absl::Span<const uint32_t> other(texts_[1]);
    const auto beginning = [&](absl::Span<const uint32_t> of) {
      cache->Truncate(0);
      return ReadOn(device_, *cache, of, {kRepeated});
    };
    TANDEM_ASSIGN_OR_RETURN(const Rows wanted, beginning(text));
    for (int time = 1; time < 3; ++time) {
      // Something else of the same shape: what it leaves behind must not show.
      TANDEM_ASSIGN_OR_RETURN(const Rows others, beginning(other));
      if (SameBits(others, wanted).ok()) {
        return absl::DataLossError("another text of the same length has the same logits");
      }
      TANDEM_ASSIGN_OR_RETURN(const Rows rows, beginning(text));
      TANDEM_RETURN_IF_ERROR(SameBits(rows, wanted));
    }
    return absl::OkStatus();
  }

  absl::Status Tiles() { return SameTiles(device_, device_, Vocabulary(), size_.tile, kShortPass); }

  // The paths have all nodes. The last one is kept, and the text goes on behind it: node 6 moves to
  // the cell of node 2, which moves, too, so reads have to come before writes.
  absl::Status Trees() {
    const std::vector<int> parents = {-1, 0, 0, 2, -1, 4, 2, 6};
    const std::vector<std::vector<int>> paths = {{0, 1}, {0, 2, 3}, {4, 5}, {0, 2, 6, 7}};
    const absl::Span<const uint32_t> text = absl::MakeConstSpan(texts_[0]).first(10);
    const absl::Span<const uint32_t> nodes = absl::MakeConstSpan(texts_[1]).first(parents.size());
    const absl::Span<const uint32_t> next = absl::MakeConstSpan(texts_[2]).first(3);
    TANDEM_ASSIGN_OR_RETURN(const auto cache, device_.NewCache(kTextLength));
    TANDEM_RETURN_IF_ERROR(HoldBeginning(device_, *cache, text, text.size()));
    TANDEM_ASSIGN_OR_RETURN(const Rows rows, Computed(device_, {{cache.get(), nodes, 0, parents}}));
    cache->Keep(paths.back());
    TANDEM_ASSIGN_OR_RETURN(const Rows moved, Computed(device_, {{cache.get(), next, 0}}));
    Rows wanted(parents.size());
    Rows straight;
    for (const std::vector<int>& path : paths) {
      std::vector<uint32_t> chain(text.begin(), text.end());
      for (const int node : path) chain.push_back(nodes[static_cast<size_t>(node)]);
      if (path == paths.back()) chain.insert(chain.end(), next.begin(), next.end());
      cache->Truncate(static_cast<int>(text.size()));
      TANDEM_ASSIGN_OR_RETURN(straight,
                              ReadOn(device_, *cache, chain, {chain.size() - text.size()}));
      for (size_t i = 0; i < path.size(); ++i) wanted[static_cast<size_t>(path[i])] = straight[i];
    }
    TANDEM_RETURN_IF_ERROR(SameBits(rows, wanted));
    const absl::Status same = SameBits(moved, absl::MakeSpan(straight).last(next.size()));
    if (same.ok()) return same;
    return absl::DataLossError(absl::StrCat("behind a path that was kept ", same.message()));
  }

 private:
  uint32_t Vocabulary() const {
    return std::min(device_.info().vocabulary_size, reference_.info().vocabulary_size);
  }

  // The last `RowsOf` tokens of these texts in one pass; what is before them was read alone.
  static size_t RowsOf(int text) { return 1 + 2 * static_cast<size_t>(text); }

  // Each text alone. Its cache stays, for passes of several.
  absl::Status ReadAlone() {
    for (size_t i = 0; i < kCompanions; ++i) {
      const size_t rows = RowsOf(static_cast<int>(i));
      TANDEM_ASSIGN_OR_RETURN(caches_[i], device_.NewCache(kTextLength));
      TANDEM_RETURN_IF_ERROR(
          HoldBeginning(device_, *caches_[i], texts_[i], texts_[i].size() - rows));
      TANDEM_ASSIGN_OR_RETURN(alone_[i], ReadOn(device_, *caches_[i], texts_[i], {rows}));
    }
    return absl::OkStatus();
  }

  absl::Status SameAsAlone(absl::Span<const int> order) {
    std::vector<ForwardPart> parts;
    Rows wanted;
    for (const int text : order) {
      const auto i = static_cast<size_t>(text);
      if (caches_[i] == nullptr) return absl::InternalError("a text could not be read alone");
      const size_t before = texts_[i].size() - RowsOf(text);
      caches_[i]->Truncate(static_cast<int>(before));
      parts.push_back({caches_[i].get(), absl::MakeConstSpan(texts_[i]).subspan(before), 0});
      wanted.insert(wanted.end(), alone_[i].begin(), alone_[i].end());
    }
    TANDEM_ASSIGN_OR_RETURN(const Rows together, Computed(device_, parts));
    return SameBits(together, wanted);
  }

  LanguageModel& device_;
  LanguageModel& reference_;
  const double tolerance_;
  const CheckSize size_;
  std::mt19937 random_{20261123};
  std::vector<std::vector<uint32_t>> texts_;
  Rows read_;  // of texts_[0], by kCuts
  std::array<std::unique_ptr<Cache>, kCompanions> caches_;
  std::array<Rows, kCompanions> alone_;
};

}  // namespace

std::vector<CheckResult> CheckModel(LanguageModel& device, LanguageModel& reference,
                                    double tolerance, const CheckSize& size) {
  Checker checker(device, reference, tolerance, size);
  std::vector<CheckResult> results = {{"parity", checker.Parity()},   {"cuts", checker.Cuts()},
                                      {"company", checker.Company()}, {"order", checker.Order()},
                                      {"repeat", checker.Repeat()},   {"long", checker.Long()},
                                      {"trees", checker.Trees()}};
  if (size.tile > 0) results.push_back({"tiles", checker.Tiles()});
  return results;
}

absl::Status CheckSameBits(LanguageModel& device, LanguageModel& other, const CheckSize& size) {
  std::mt19937 random(20261124);
  const uint32_t vocabulary = std::min(device.info().vocabulary_size, other.info().vocabulary_size);
  const std::vector<uint32_t> text = RandomText(random, kTextLength, vocabulary);
  const size_t whole[] = {text.size()};
  for (const absl::Span<const size_t> cuts : {absl::MakeConstSpan(kCuts), {whole}}) {
    TANDEM_ASSIGN_OR_RETURN(const Rows rows, Read(device, text, cuts));
    TANDEM_ASSIGN_OR_RETURN(const Rows wanted, Read(other, text, cuts));
    TANDEM_RETURN_IF_ERROR(SameBits(rows, wanted));
  }
  if (size.tile == 0) return absl::OkStatus();
  return SameTiles(device, other, vocabulary, size.tile, /*pass_rows=*/0);
}

absl::Status CheckWholeProducts(LanguageModel& whole, LanguageModel& tiles, int tile) {
  const uint32_t vocabulary = std::min(whole.info().vocabulary_size, tiles.info().vocabulary_size);
  if (SideBySide(whole, vocabulary).most_rows() < whole.max_rows()) {
    return absl::FailedPreconditionError("the context is too short to compare the longest passes");
  }
  return SameTiles(whole, tiles, vocabulary, tile, /*pass_rows=*/tile);
}

absl::Status FirstFailures(absl::Span<const CheckResult> results) {
  std::vector<std::string> failures;
  for (const CheckResult& result : results) {
    if (result.status.ok()) continue;
    failures.push_back(absl::StrCat(result.name, ": ", result.status.message()));
  }
  if (failures.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrJoin(failures, "; "));
}

absl::StatusOr<std::vector<CostPoint>> MeasureCost(LanguageModel& device, int max_rows, int times) {
  std::vector<CostPoint> points;
  const std::vector<uint32_t> token = {0};
  std::vector<std::unique_ptr<Cache>> caches;
  for (int rows = 1; rows <= std::min(max_rows, device.max_rows()); rows *= 2) {
    while (static_cast<int>(caches.size()) < rows) {
      auto cache = device.NewCache(1);
      if (absl::IsResourceExhausted(cache.status())) return points;
      TANDEM_RETURN_IF_ERROR(cache.status());
      caches.push_back(*std::move(cache));
    }
    CostPoint point{rows, absl::InfiniteDuration()};
    for (int time = 0; time < times; ++time) {
      std::vector<ForwardPart> parts;
      for (const auto& cache : caches) {
        cache->Truncate(0);
        parts.push_back({cache.get(), token, 0});
      }
      const absl::Time began = absl::Now();
      TANDEM_RETURN_IF_ERROR(device.Forward(parts).status());
      point.took = std::min(point.took, absl::Now() - began);
    }
    points.push_back(point);
  }
  return points;
}

std::string CheckTable(absl::Span<const CheckResult> results, absl::Span<const CostPoint> cost) {
  std::string text = "check      result\n";
  for (const CheckResult& result : results) {
    absl::StrAppend(&text, absl::StrFormat("%-10s ", result.name),
                    result.status.ok() ? "passed" : result.status.message(), "\n");
  }
  if (cost.empty()) return text;
  absl::StrAppend(&text, "\nrows  ms per pass, at position 0 and with a copy of the logits\n");
  for (const CostPoint& point : cost) {
    absl::StrAppend(
        &text, absl::StrFormat("%4d  %.3f\n", point.rows, absl::ToDoubleMilliseconds(point.took)));
  }
  return text;
}

}  // namespace tandem::torch
