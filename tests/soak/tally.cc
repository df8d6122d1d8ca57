#include "tests/soak/tally.h"

#include <sstream>

#include "gtest/gtest.h"

namespace tandem::testing {

void Tally::Ended(const std::string& how) {
  concurrency::MutexLock lock(mutex_);
  ++endings_[how];
}

void Tally::Wrong(const std::string& what) {
  concurrency::MutexLock lock(mutex_);
  if (++wrong_ <= 10) ADD_FAILURE() << what;
}

void Tally::Add(const v1::AcceptanceRecord& record) {
  replays_ += record.target_replays();
  reconnections_ += record.draft_reconnections();
}

uint64_t Tally::count(const std::string& how) const {
  concurrency::MutexLock lock(mutex_);
  auto it = endings_.find(how);
  return it == endings_.end() ? 0 : it->second;
}

std::string Tally::Text() const {
  concurrency::MutexLock lock(mutex_);
  std::ostringstream text;
  for (const auto& [how, times] : endings_) text << how << " " << times << "  ";
  return text.str();
}

}  // namespace tandem::testing
