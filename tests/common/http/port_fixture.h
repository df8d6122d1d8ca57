// A port of HTTP with a handler that does what a test says, and clients of it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/concurrency/mutex.h"
#include "common/http/port.h"
#include "common/transport/byte_budget.h"
#include "tests/common/admin/http_client.h"
#include "tests/support/wait.h"

namespace tandem::http {

class CountingListener final : public ReplyListener {
 public:
  void OnWritten() override { ++written; }
  void OnOver(bool complete) override {
    this->complete = complete;
    over = true;
  }
  std::atomic<int> written = 0;
  std::atomic<bool> over = false;
  std::atomic<bool> complete = false;
};

// /echo answers with the body; /no is refused by its head; all others are kept for the test.
class TestHandler final : public Handler {
 public:
  absl::Status OnHead(const Request& head) override {
    return head.path == "/no" ? absl::UnauthenticatedError("no token") : absl::OkStatus();
  }
  void OnRequest(Request request, std::shared_ptr<Reply> reply) override {
    if (!request.refused.ok()) {
      return reply->Respond({.code = 401, .body = std::string(request.refused.message())});
    }
    if (request.path == "/echo") return reply->Respond({.body = request.body});
    concurrency::MutexLock lock(mutex_);
    kept_ = std::move(reply);
  }
  Response Malformed(int code, absl::string_view reason) override {
    return {.code = code, .body = std::string(reason)};
  }
  absl::StatusOr<std::shared_ptr<const void>> Hold(const std::string& client,
                                                   size_t bytes) override {
    absl::StatusOr<transport::ByteBudget::Hold> hold = budget->Take(client, bytes);
    holds += hold.ok() ? 1 : 0;
    return hold;
  }

  // Waits for a request to be kept, and takes its reply.
  std::shared_ptr<Reply> Take() {
    std::shared_ptr<Reply> reply;
    EXPECT_TRUE(tandem::testing::WaitUntil([&] {
      concurrency::MutexLock lock(mutex_);
      reply = std::exchange(kept_, nullptr);
      return reply != nullptr;
    }));
    return reply;
  }

  // Replaced before the port is there.
  std::unique_ptr<transport::ByteBudget> budget =
      std::make_unique<transport::ByteBudget>(size_t{1} << 30);
  std::atomic<int> holds = 0;  // that were granted

 private:
  concurrency::Mutex mutex_;
  std::shared_ptr<Reply> kept_ TANDEM_GUARDED_BY(mutex_);
};

class PortTest : public ::testing::Test {
 protected:
  void Serve(PortOptions options = {}) {
    options.address = {.host = "127.0.0.1", .port = 0};
    auto port = Port::Start(options, handler_);
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *std::move(port);
  }
  admin::PlainConnection Connect() const { return admin::PlainConnection(port_->port()); }
  static std::string Get(absl::string_view path, absl::string_view more = "") {
    return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n", more, "\r\n");
  }
  static std::string Post(absl::string_view path, absl::string_view body,
                          absl::string_view more = "") {
    return absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\nContent-Length: ", body.size(),
                        "\r\n", more, "\r\n", body);
  }

  TestHandler handler_;
  std::unique_ptr<Port> port_;
};

}  // namespace tandem::http
