#include "tests/soak/restartable_draft.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "draft_service/drafters/model_drafter.h"
#include "draft_service/drafters/prompt_lookup.h"
#include "tests/support/random_drafter.h"

namespace tandem::testing {

RestartableDraft::RestartableDraft(TableModel& model,
                                   std::shared_ptr<const tokenizer::Tokenizer> tokenizer)
    : model_(model), tokenizer_(std::move(tokenizer)) {
  Start("127.0.0.1:0");
  address_ = absl::StrCat("127.0.0.1:", host_->port());
}

void RestartableDraft::Restart() {
  host_ = nullptr;
  service_ = nullptr;
  TANDEM_CHECK(model_.live_caches() == 0) << "an ended service holds nothing";
  Start(address_);
  ++restarts_;
}

void RestartableDraft::Start(const std::string& address) {
  const uint32_t vocabulary_size = tokenizer_->vocabulary_size();
  draft_service::Options options;
  options.drafters = {
      draft_service::ModelDrafterFactory(model_, {.vocabulary_size = vocabulary_size}),
      draft_service::PromptLookupFactory(),
      RandomDrafterFactory({.vocabulary_size = vocabulary_size})};
  options.vocabulary_size = vocabulary_size;
  options.context_length = model_.info().context_length;
  options.model_id = model_.info().model_id;
  options.tokenizer_id = tokenizer_->content_id();
  auto service = draft_service::Service::Create(std::move(options));
  TANDEM_CHECK_OK(service);
  service_ = *std::move(service);
  transport::ServerHostOptions host;
  host.listen_address = address;
  host.services = {service_->grpc_service()};
  auto started = transport::ServerHost::Start(std::move(host));
  TANDEM_CHECK_OK(started);
  host_ = *std::move(started);
  host_->SetReady(true);
}

}  // namespace tandem::testing
