#include "client/pull/progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tandem::client {
namespace {

constexpr absl::Duration kTerminalPeriod = absl::Milliseconds(100);
constexpr absl::Duration kLinePeriod = absl::Seconds(5);      // where lines stay
constexpr absl::Duration kMinSpan = absl::Milliseconds(500);  // before a pace is told

}  // namespace

std::string BytesText(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  if (bytes < 1000 * 1000) return absl::StrFormat("%.0f kB", value / 1e3);
  if (bytes < 1000 * 1000 * 1000) return absl::StrFormat("%.0f MB", value / 1e6);
  return absl::StrFormat("%.2f GB", value / 1e9);
}

Progress::Progress(std::string name, ProgressOptions options)
    : name_(std::move(name)), options_(std::move(options)), begin_(options_.now()) {}

void Progress::OnPlan(int files, int64_t bytes, int64_t held) {
  bytes_ = bytes;
  done_ = held_ = held;
  begin_ = options_.now();
  shown_ = begin_;
  OnNote(absl::StrCat(files, files == 1 ? " file, " : " files, ", BytesText(bytes),
                      held == 0 ? "" : absl::StrCat(", ", BytesText(held), " of it here already")));
}

void Progress::OnFile(const std::string& name, int64_t) {
  file_ = name;
  if (options_.is_terminal) Show(/*is_due=*/true);
}

void Progress::OnBytes(int64_t bytes) {
  done_ += bytes;
  const absl::Duration period = options_.is_terminal ? kTerminalPeriod : kLinePeriod;
  Show(options_.now() - shown_ >= period);
}

void Progress::OnNote(const std::string& text) {
  Finish();
  options_.write(absl::StrCat(name_, ": ", text, "\n"));
}

void Progress::Finish() {
  if (width_ > 0) options_.write("\n");
  width_ = 0;
}

std::string Progress::Line() const {
  std::string line = absl::StrCat(name_, ": ", BytesText(done_), " of ", BytesText(bytes_), " (",
                                  bytes_ > 0 ? done_ * 100 / bytes_ : 100, " %)");
  const absl::Duration span = options_.now() - begin_;
  if (span >= kMinSpan && done_ > held_) {
    const double pace = static_cast<double>(done_ - held_) / absl::ToDoubleSeconds(span);
    absl::StrAppend(&line, ", ", BytesText(static_cast<int64_t>(pace)), "/s");
    const absl::Duration left = absl::Seconds(static_cast<double>(bytes_ - done_) / pace);
    if (left >= absl::Seconds(1)) {
      absl::StrAppend(&line, ", ", absl::FormatDuration(absl::Trunc(left, absl::Seconds(1))),
                      " left");
    }
  }
  return absl::StrCat(line, ", ", file_);
}

void Progress::Show(bool is_due) {
  if (!is_due) return;
  shown_ = options_.now();
  const std::string line = Line();
  if (!options_.is_terminal) {
    options_.write(line + "\n");
    return;
  }
  // Blanks over what is left of a longer line before.
  const std::string rest(width_ > line.size() ? width_ - line.size() : 0, ' ');
  options_.write(absl::StrCat("\r", line, rest));
  width_ = line.size();
}

}  // namespace tandem::client
