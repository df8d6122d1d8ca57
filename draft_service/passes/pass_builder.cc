#include "draft_service/passes/pass_builder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/concurrency/instant.h"

namespace tandem::draft_service {
namespace {

// A block that reads at most so many rows first counts as drafting: a round's accepted tokens, not
// a prompt.
constexpr int kShortReading = 32;
// The most rows of a pass that only reads, where the number of rows is chosen here: who comes to
// draft waits for it, and longer ones are hardly cheaper a row.
constexpr int kReadingRows = 64;
constexpr double kLoss = 0.25;
// So that a pass of more than one row is measured again and again, whatever one row seems to cost.
constexpr int kMinRows = 2;

absl::Status CheckPart(const model::ForwardPart& part, int rows, const model::ModelInfo& info) {
  if (part.cache == nullptr || part.tokens.size() != static_cast<size_t>(rows) ||
      part.first_logits_row < 0 || part.first_logits_row > rows) {
    return absl::InternalError(absl::StrCat("a drafter gave ", part.tokens.size(), " rows, of ",
                                            rows, ", with logits from row ",
                                            part.first_logits_row));
  }
  if (part.cache->length() + rows > part.cache->max_length()) {
    return absl::InternalError(absl::StrCat("its cache of ", part.cache->max_length(),
                                            " tokens holds ", part.cache->length(),
                                            " and has no room for ", rows));
  }
  for (uint32_t token : part.tokens) {
    if (token >= info.vocabulary_size) {
      return absl::InternalError(
          absl::StrCat("token ", token, " is outside 0 to ", info.vocabulary_size - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace

PassBuilder::PassBuilder(model::LanguageModel& model, int pass_rows,
                         const concurrency::Clock& clock)
    : model_(model), pass_rows_(pass_rows), clock_(clock), cost_(model.max_rows()) {
  TANDEM_CHECK(pass_rows >= 0) << pass_rows;
}

void PassBuilder::Join(const PassMember& member) {
  TANDEM_CHECK(&member.drafter->model() == &model_);
  for (const PassMember& other : members_) {
    if (other.id == member.id) return;
  }
  members_.push_back(member);
  const ForwardDrafter::Wanted wanted = member.drafter->wanted();
  waiting_rows_ += wanted.reading + wanted.drafting;
}

void PassBuilder::Leave(uint64_t id) {
  std::erase_if(members_, [id](const PassMember& member) { return member.id == id; });
  if (members_.empty()) waiting_rows_ = 0;
}

int PassBuilder::RowLimit() const {
  const int max = model_.max_rows();
  if (pass_rows_ > 0) return std::min(pass_rows_, max);
  if (cost_.empty()) return max;
  const int measured = cost_.Points().back().rows;
  const int efficient = cost_.EfficientRows(kLoss);
  // Where rows still get cheaper at the most that was measured, more are tried. (All rows for one
  // price would make `efficient` 1 / (1 + kLoss) of that.)
  const int rows = 2 * efficient > measured ? 2 * measured : efficient;
  return std::min(std::max(rows, kMinRows), max);
}

absl::Duration PassBuilder::ExpectedTime() const {
  if (members_.empty() || cost_.empty()) return absl::ZeroDuration();
  const int64_t rows =  // most want one
      std::count_if(members_.begin(), members_.end(), [](const PassMember& member) {
        return member.drafter->wanted().preparing == 0;
      });
  return cost_.Estimate(static_cast<int>(std::clamp<int64_t>(rows, 1, RowLimit())));
}

std::vector<PassBuilder::Chosen> PassBuilder::Choose() {
  std::vector<Item> drafting, reading, preparing;
  std::vector<size_t> drafting_member, reading_member, preparing_member;
  int64_t drafting_rows = 0;
  int64_t reading_rows = 0;
  for (size_t i = 0; i < members_.size(); ++i) {
    const PassMember& member = members_[i];
    const ForwardDrafter::Wanted wanted = member.drafter->wanted();
    TANDEM_CHECK(wanted.total() >= 1) << "a member that wants nothing";
    if (wanted.preparing > 0) {
      preparing.push_back({member.group, member.id, 0, wanted.preparing, member.weight});
      preparing_member.push_back(i);
      continue;
    }
    const bool drafts = wanted.drafting > 0 && wanted.reading <= kShortReading;
    (drafts ? drafting : reading)
        .push_back({member.group, member.id, wanted.drafting, wanted.reading, member.weight});
    (drafts ? drafting_member : reading_member).push_back(i);
    (drafts ? drafting_rows : reading_rows) += wanted.total();
  }
  int max = RowLimit();
  const bool only_prepares = drafting.empty() && reading.empty();
  if (drafting.empty() && !only_prepares && pass_rows_ == 0) {
    max = std::min(std::max(max, kReadingRows), model_.max_rows());
  }
  // All branches of a sequence at once: none of them is of use before all are whole.
  if (only_prepares && pass_rows_ == 0) {
    max = std::min(std::max<int>(max, kMaxOutcomes), model_.max_rows());
  }
  int for_reading = 0;  // at most; what drafting leaves comes to it
  if (!drafting.empty() && !reading.empty()) {
    for_reading = static_cast<int>(std::min<int64_t>(reading_rows, max / 2));
    if (max == 1) for_reading = std::exchange(readers_turn_, !readers_turn_) ? 1 : 0;
  }
  std::vector<Chosen> chosen;
  int left = max;
  auto pick = [&](scheduling::FairShare& share, const std::vector<Item>& items,
                  const std::vector<size_t>& member, int rows) {
    if (items.empty() || rows == 0) return;
    for (const scheduling::FairShare::Grant& grant :
         share.Pick(items, rows, /*sure_items=*/1, rows)) {
      chosen.push_back({member[grant.index], grant.rows, {}});
      left -= grant.rows;
    }
  };
  pick(drafting_share_, drafting, drafting_member, max - for_reading);
  pick(reading_share_, reading, reading_member, left);
  if (only_prepares) pick(preparing_share_, preparing, preparing_member, left);
  TANDEM_CHECK(left >= 0 && left < max) << left << " of " << max << " rows are left";
  waiting_rows_ = only_prepares ? 0 : drafting_rows + reading_rows - (max - left);
  return chosen;
}

PassReport PassBuilder::Run() {
  PassReport report;
  if (members_.empty()) return report;
  std::vector<Chosen> chosen = Choose();
  std::erase_if(chosen, [&](Chosen& choice) {
    const PassMember& member = members_[choice.member];
    choice.part = member.drafter->NextPart(choice.rows);
    absl::Status status = CheckPart(choice.part, choice.rows, model_.info());
    if (status.ok()) return false;
    report.results.push_back({member.id, std::move(status)});
    return true;
  });
  if (!chosen.empty()) RunPass(chosen, report);
  return report;
}

void PassBuilder::RunPass(absl::Span<const Chosen> chosen, PassReport& report) {
  std::vector<model::ForwardPart> parts;
  parts.reserve(chosen.size());
  bool drafts_alone = true;
  for (const Chosen& choice : chosen) {
    parts.push_back(choice.part);
    report.rows += choice.rows;
    drafts_alone = drafts_alone && choice.part.first_logits_row < choice.rows;
  }
  report.sequences = static_cast<int>(parts.size());
  const concurrency::Instant began = clock_.Now();
  const absl::StatusOr<model::Logits> logits = model_.Forward(parts);
  report.time = clock_.Now() - began;
  if (!logits.ok()) report.device = model_.DeviceStatus();
  if (logits.ok() && drafts_alone && report.time > absl::ZeroDuration()) {
    cost_.Observe(report.rows, report.time);
  }
  int row = 0;
  for (const Chosen& choice : chosen) {
    const PassMember& member = members_[choice.member];
    if (!logits.ok()) {
      report.results.push_back({member.id, logits.status()});
      continue;
    }
    const int of_part = choice.rows - choice.part.first_logits_row;
    const bool drafted = of_part > 0;
    const size_t width = static_cast<size_t>(logits->vocabulary_size);
    const absl::Status status = member.drafter->ReadLogits(
        {logits->data + static_cast<size_t>(row) * width, static_cast<size_t>(of_part) * width});
    row += of_part;
    report.results.push_back({member.id, status, drafted && status.ok()});
  }
}

}  // namespace tandem::draft_service
