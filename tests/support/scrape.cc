#include "tests/support/scrape.h"

#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace tandem::testing {
namespace {

absl::Status Wrong(absl::string_view what, absl::string_view where) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", where));
}

bool IsName(absl::string_view name, bool colons) {
  if (name.empty() || absl::ascii_isdigit(name[0])) return false;
  for (const char c : name) {
    if (!absl::ascii_isalnum(c) && c != '_' && !(colons && c == ':')) return false;
  }
  return true;
}

std::string Show(const MetricSample& sample) {
  std::string text = absl::StrCat(sample.name, "{");
  for (const auto& [key, value] : sample.labels) absl::StrAppend(&text, key, "=", value, ",");
  return text + "}";
}

// {a="b",c="d"}, from behind the brace up to the closing one, which is taken off.
absl::Status TakeLabels(absl::string_view& rest, MetricLabels& labels) {
  while (true) {
    const size_t equals = rest.find("=\"");
    if (equals == rest.npos) return Wrong("label without a value", rest);
    const std::string key(rest.substr(0, equals));
    if (!IsName(key, false)) return Wrong("label name", key);
    rest.remove_prefix(equals + 2);
    std::string value;
    while (!rest.empty() && rest[0] != '"') {
      if (rest[0] == '\\') {
        if (rest.size() < 2 || !absl::StrContains("\\\"n", rest[1])) return Wrong("escape", rest);
        value += rest[1] == 'n' ? '\n' : rest[1];
        rest.remove_prefix(2);
      } else {
        value += rest[0];
        rest.remove_prefix(1);
      }
    }
    if (!absl::ConsumePrefix(&rest, "\"")) return Wrong("label value is not closed", key);
    if (!labels.emplace(key, value).second) return Wrong("label twice", key);
    if (absl::ConsumePrefix(&rest, "}")) return absl::OkStatus();
    if (!absl::ConsumePrefix(&rest, ",")) return Wrong("between labels", rest);
  }
}

absl::StatusOr<double> ParseValue(absl::string_view text) {
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return Wrong("value", text);
  return value;
}

absl::StatusOr<MetricSample> ParseSample(absl::string_view line) {
  MetricSample sample;
  absl::string_view rest = line;
  const size_t end = rest.find_first_of("{ ");
  if (end == rest.npos) return Wrong("sample without a value", line);
  sample.name = std::string(rest.substr(0, end));
  if (!IsName(sample.name, true)) return Wrong("name", line);
  rest.remove_prefix(end);
  if (absl::ConsumePrefix(&rest, "{")) TANDEM_RETURN_IF_ERROR(TakeLabels(rest, sample.labels));
  if (!absl::ConsumePrefix(&rest, " ")) return Wrong("no space before the value", line);
  TANDEM_ASSIGN_OR_RETURN(sample.value, ParseValue(rest));
  return sample;
}

bool Match(MetricLabels labels, const MetricLabels& wanted) {
  if (!wanted.contains("model_name")) labels.erase("model_name");
  return labels == wanted;
}

// Of one series: its buckets in their order, sum, count.
struct HistogramSeries {
  std::vector<std::pair<double, double>> buckets;
  std::optional<double> sum;
  std::optional<double> count;
};

absl::Status CheckHistogram(const std::string& name, const ScrapedFamily& family) {
  std::map<MetricLabels, HistogramSeries> all;
  for (const MetricSample& sample : family.samples) {
    MetricLabels labels = sample.labels;
    const auto le = labels.find("le");
    if (sample.name == absl::StrCat(name, "_bucket")) {
      if (le == labels.end()) return Wrong("bucket without le", Show(sample));
      TANDEM_ASSIGN_OR_RETURN(const double bound, ParseValue(le->second));
      labels.erase(le);
      all[labels].buckets.emplace_back(bound, sample.value);
    } else if (le != labels.end()) {
      return Wrong("le outside of a bucket", Show(sample));
    } else if (sample.name == absl::StrCat(name, "_sum")) {
      all[labels].sum = sample.value;
    } else if (sample.name == absl::StrCat(name, "_count")) {
      all[labels].count = sample.value;
    } else {
      return Wrong("not of this histogram", Show(sample));
    }
  }
  for (const auto& [labels, series] : all) {
    if (!series.sum || !series.count || series.buckets.empty()) {
      return Wrong("histogram lacks buckets, sum or count", name);
    }
    for (size_t i = 1; i < series.buckets.size(); ++i) {
      if (series.buckets[i].first <= series.buckets[i - 1].first ||
          series.buckets[i].second < series.buckets[i - 1].second) {
        return Wrong("buckets do not rise", name);
      }
    }
    if (!std::isinf(series.buckets.back().first)) return Wrong("no bucket +Inf", name);
    if (series.buckets.back().second != *series.count) return Wrong("count is not +Inf's", name);
  }
  return absl::OkStatus();
}

absl::Status CheckFamily(const std::string& name, const ScrapedFamily& family) {
  if (family.help.empty() || family.type.empty()) return Wrong("no HELP or no TYPE", name);
  if (family.samples.empty()) return Wrong("no samples", name);
  for (const MetricSample& sample : family.samples) {
    if (family.type != "gauge" && sample.value < 0) return Wrong("below 0", Show(sample));
    if (!std::isfinite(sample.value)) return Wrong("not finite", Show(sample));
    if (family.type != "histogram" && sample.name != name) return Wrong("name", Show(sample));
  }
  if (family.type == "histogram") return CheckHistogram(name, family);
  if (family.type == "gauge") return absl::OkStatus();
  if (family.type != "counter") return Wrong("type", absl::StrCat(name, " ", family.type));
  return absl::EndsWith(name, "_total") ? absl::OkStatus() : Wrong("counter's name", name);
}

}  // namespace

absl::StatusOr<Scrape> ParseMetrics(absl::string_view text) {
  if (!absl::ConsumeSuffix(&text, "\n")) return Wrong("does not end with a line break", "");
  Scrape scrape;
  std::set<std::pair<std::string, MetricLabels>> seen;
  std::string current;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "#")) {
      const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 3));
      if (words.size() != 4 || words[0] != "#") return Wrong("comment", line);
      if (!IsName(words[2], true)) return Wrong("name", line);
      ScrapedFamily& family = scrape.families[std::string(words[2])];
      if (!family.samples.empty()) return Wrong("after its samples", line);
      std::string* const field = words[1] == "HELP" ? &family.help : &family.type;
      if (words[1] != "HELP" && words[1] != "TYPE") return Wrong("comment", line);
      if (!field->empty()) return Wrong("twice", line);
      *field = std::string(words[3]);
      current = std::string(words[2]);
      continue;
    }
    TANDEM_ASSIGN_OR_RETURN(MetricSample sample, ParseSample(line));
    if (!absl::StartsWith(sample.name, current) || current.empty()) {
      return Wrong("not with its family", line);
    }
    if (!seen.emplace(sample.name, sample.labels).second) return Wrong("series twice", line);
    scrape.families[current].samples.push_back(std::move(sample));
  }
  for (const auto& [name, family] : scrape.families) {
    TANDEM_RETURN_IF_ERROR(CheckFamily(name, family));
  }
  return scrape;
}

std::vector<MetricSample> Scrape::Find(absl::string_view name) const {
  auto it = families.find(std::string(name));
  for (const absl::string_view suffix : {"_bucket", "_sum", "_count"}) {
    absl::string_view family = name;
    if (it == families.end() && absl::ConsumeSuffix(&family, suffix)) {
      it = families.find(std::string(family));
    }
  }
  std::vector<MetricSample> found;
  if (it == families.end()) return found;
  for (const MetricSample& sample : it->second.samples) {
    if (sample.name == name) found.push_back(sample);
  }
  return found;
}

bool Scrape::Has(absl::string_view name, const MetricLabels& labels) const {
  for (const MetricSample& sample : Find(name)) {
    if (Match(sample.labels, labels)) return true;
  }
  return false;
}

double Scrape::Value(absl::string_view name, const MetricLabels& labels) const {
  for (const MetricSample& sample : Find(name)) {
    if (Match(sample.labels, labels)) return sample.value;
  }
  TANDEM_CHECK(false) << "no series " << Show({std::string(name), labels, 0});
  return 0;
}

double Scrape::Sum(absl::string_view name) const {
  const std::vector<MetricSample> found = Find(name);
  TANDEM_CHECK(!found.empty()) << "no metric " << name;
  double sum = 0;
  for (const MetricSample& sample : found) sum += sample.value;
  return sum;
}

absl::Status CheckFollows(const Scrape& before, const Scrape& after) {
  for (const auto& [name, family] : before.families) {
    for (const MetricSample& sample : family.samples) {
      if (!after.Has(sample.name, sample.labels)) return Wrong("is gone", Show(sample));
      const double now = after.Value(sample.name, sample.labels);
      if (family.type != "gauge" && now < sample.value) {
        return Wrong("went down", absl::StrCat(Show(sample), " ", sample.value, " to ", now));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem::testing
