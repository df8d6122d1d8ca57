// Asks a service's admin port for /metrics, again and again, and judges every answer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/transport/server_host.h"
#include "tests/common/admin/http_client.h"
#include "tests/support/scrape.h"

namespace tandem::testing {

// What GET /metrics answers; INVALID_ARGUMENT: it is not a good answer, or not a good text.
inline absl::StatusOr<Scrape> ScrapePort(int admin_port) {
  const std::string answer =
      admin::Http(admin_port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(answer, absl::MaxSplits("\r\n\r\n", 1));
  if (!absl::StartsWith(parts.first, "HTTP/1.1 200 ")) {
    return absl::InvalidArgumentError(absl::StrCat("answer: ", parts.first));
  }
  return ParseMetrics(parts.second);
}

// An admin port of its own for a service in this process.
class AdminOf {
 public:
  explicit AdminOf(std::function<std::string()> metrics) {
    transport::ServerHostOptions options;
    options.listen_address = "127.0.0.1:0";
    options.admin_address = "127.0.0.1:0";
    options.metrics = std::move(metrics);
    auto host = transport::ServerHost::Start(std::move(options));
    TANDEM_CHECK_OK(host);
    host_ = *std::move(host);
  }
  int port() const { return host_->admin_port(); }

 private:
  std::unique_ptr<transport::ServerHost> host_;
};

// Thread-safe. Scrapes from its making to its Stop.
class Scraper {
 public:
  using Judge = std::function<std::vector<std::string>(const Scrape&)>;

  // `judge` gives what is wrong with a scrape.
  Scraper(int admin_port, Judge judge)
      : judge_(std::move(judge)), thread_([this, admin_port] {
          do {
            Take(ScrapePort(admin_port));
          } while (!stop_);
        }) {}
  ~Scraper() { Stop(); }

  // What was wrong, at most 20 of it; none: all scrapes were good.
  std::vector<std::string> Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return problems_;
  }
  int scrapes() const { return scrapes_; }

 private:
  void Take(const absl::StatusOr<Scrape>& scrape) {
    if (problems_.size() >= 20) return;
    if (!scrape.ok()) {
      problems_.push_back(scrape.status().ToString());
      return;
    }
    for (std::string& problem : judge_(*scrape)) problems_.push_back(std::move(problem));
    if (before_.has_value()) {
      const absl::Status follows = CheckFollows(*before_, *scrape);
      if (!follows.ok()) problems_.push_back(follows.ToString());
    }
    before_ = *scrape;
    ++scrapes_;
  }

  const Judge judge_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> scrapes_ = 0;
  std::vector<std::string> problems_;  // the thread's, until it is joined
  std::optional<Scrape> before_;
  std::thread thread_;
};

}  // namespace tandem::testing
