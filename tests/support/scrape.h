// What a scraper reads: Prometheus' text exposition format, taken strictly.
//
//   absl::StatusOr<Scrape> scrape = ParseMetrics(text);
//   scrape->Value("tandem:rounds_without_draft_total", {{"cause", "off"}})
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::testing {

using MetricLabels = std::map<std::string, std::string>;

struct MetricSample {
  std::string name;  // as on its line: with _bucket, _sum, _count
  MetricLabels labels;
  double value = 0;
};

struct ScrapedFamily {
  std::string help;
  std::string type;  // counter, gauge, histogram
  std::vector<MetricSample> samples;
};

// One answer to a GET of /metrics.
class Scrape {
 public:
  // CHECKs that it is there. A series' model_name counts only if `labels` have one: a process has
  // one model.
  double Value(absl::string_view name, const MetricLabels& labels = {}) const;
  bool Has(absl::string_view name, const MetricLabels& labels = {}) const;
  // Over all its series; of a histogram give the name with _count or _sum.
  double Sum(absl::string_view name) const;

  std::map<std::string, ScrapedFamily> families;

 private:
  std::vector<MetricSample> Find(absl::string_view name) const;
};

// INVALID_ARGUMENT names the first line that is wrong: every family has one HELP with text and one
// TYPE before its samples, which stand together; names, labels and values are well formed; no
// series is there twice; values are finite, those of counters and histograms not below 0; counters'
// names end in _total. Histograms: buckets rise in `le` and in value, the last one is +Inf and is
// _count, _sum is there.
absl::StatusOr<Scrape> ParseMetrics(absl::string_view text);

// Why `after`, a later scrape of the same process, cannot follow `before`: a series is gone, or a
// counter or a histogram went down. OK: it can.
absl::Status CheckFollows(const Scrape& before, const Scrape& after);

}  // namespace tandem::testing
