// A draft service that ends and comes back on the same port, as a pod does that was replaced.
#pragma once

#include <memory>
#include <string>

#include "common/tokenizer/tokenizer.h"
#include "common/transport/server_host.h"
#include "draft_service/serving/service.h"
#include "tests/support/table_model.h"

namespace tandem::testing {

// Not thread-safe.
class RestartableDraft {
 public:
  // The drafters model, prompt-lookup and random. `model` must outlive this.
  RestartableDraft(TableModel& model, std::shared_ptr<const tokenizer::Tokenizer> tokenizer);

  const std::string& address() const { return address_; }  // stays the same
  void Restart();  // every stream is cut and every sequence forgotten
  int restarts() const { return restarts_; }
  size_t active_sequences() const { return service_->active_sequences(); }

 private:
  void Start(const std::string& address);

  TableModel& model_;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::string address_;
  int restarts_ = 0;
  std::unique_ptr<draft_service::Service> service_;
  std::unique_ptr<transport::ServerHost> host_;  // ends before its service
};

}  // namespace tandem::testing
