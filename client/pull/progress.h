// Shows how far a pull is: one line that changes on a terminal, and plain lines now and then
// elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/pull/pull_observer.h"

namespace tandem::client {

struct ProgressOptions {
  bool is_terminal = false;
  std::function<absl::Time()> now;
  std::function<void(absl::string_view text)> write;  // exactly these bytes
};

// Thread safety: one thread.
class Progress : public PullObserver {
 public:
  // `name`: of the model.
  Progress(std::string name, ProgressOptions options);

  void OnPlan(int files, int64_t bytes, int64_t held) override;
  void OnFile(const std::string& name, int64_t size) override;
  void OnBytes(int64_t bytes) override;
  void OnNote(const std::string& text) override;

  // Ends the line of a terminal. Whatever is printed next begins a line.
  void Finish();

 private:
  std::string Line() const;
  void Show(bool is_due);

  const std::string name_;
  const ProgressOptions options_;
  std::string file_;
  int64_t bytes_ = 0;  // of all files; 0: unknown yet
  int64_t done_ = 0;
  int64_t held_ = 0;  // of `done_`, what was there at the beginning
  absl::Time begin_;
  absl::Time shown_ = absl::InfinitePast();
  size_t width_ = 0;  // of the line that a terminal shows; 0: none
};

// "812 kB", "1.5 GB".
std::string BytesText(int64_t bytes);

}  // namespace tandem::client
