#include "all_in_one/model_server.h"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/hub/local_directory.h"
#include "common/hub/snapshot_directory.h"
#include "common/messages/handshake.h"
#include "common/process/machine.h"
#include "common/process/process.h"
#include "common/security/bearer_tokens.h"
#include "common/tokenizer/chat_template.h"
#include "common/tokenizer/content_id.h"
#include "draft_service/text_drafters.h"
#include "model/cpu/compute_pool.h"
#include "model/load.h"
#include "orchestrator/options.h"
#include "target_service/engine/engine.h"
#include "target_service/engines.h"
#include "torch/load_options.h"

namespace tandem::all_in_one {
namespace {

using model::cpu::ComputePool;

constexpr absl::Duration kReadyPatience = absl::Seconds(30);

absl::StatusOr<target_service::EngineOptions> TargetOptions(const ServeOptions& serve) {
  target_service::EngineOptions options;
  model::LoadOptions& model = options.model;
  model.directory = serve.target_model;
  model.threads = static_cast<int>(serve.threads);
  model.sampling_defaults = serve.generation_config == "model";
  model.offload = serve.offload;
  model.max_rows = serve.max_rows;
  model.pool_tokens = serve.pool_tokens;
  TANDEM_ASSIGN_OR_RETURN(model.dtype, model::ParseDtype(serve.dtype));
  TANDEM_ASSIGN_OR_RETURN(model.cache_dtype, model::ParseDtype(serve.cache_dtype));
  options.gpu_memory_utilization = *serve.gpu_memory_utilization;
  options.card = torch::ParseDevice(serve.device).card;
  return options;
}

absl::StatusOr<model::LoadOptions> DraftOptions(const ServeOptions& serve) {
  model::LoadOptions options;
  options.directory = serve.draft_model;
  options.threads = static_cast<int>(serve.draft_threads);
  options.sampling_defaults = false;
  options.draft = true;
  options.pool_tokens = serve.draft_pool_tokens;
  TANDEM_ASSIGN_OR_RETURN(options.dtype, model::ParseDtype(serve.draft_dtype));
  TANDEM_ASSIGN_OR_RETURN(options.cache_dtype, model::ParseDtype(serve.draft_cache_dtype));
  return options;
}

// The draft's own flags, where the loader's advice names those of a model alone.
absl::Status OfModel(absl::string_view role, const absl::Status& status) {
  if (status.ok()) return status;
  const std::string message = absl::StrCat("--", role, "-model: ", status.message());
  if (role != "draft") return absl::Status(status.code(), message);
  return absl::Status(status.code(),
                      absl::StrReplaceAll(message, {{"--pool-tokens", "--draft-pool-tokens"}}));
}

// Their files, and the memory for both together.
absl::Status CheckModels(const ServeOptions& serve) {
  int64_t draft_bytes = 0;
  if (!serve.draft_model.empty()) {
    TANDEM_ASSIGN_OR_RETURN(const model::LoadOptions draft, DraftOptions(serve));
    absl::StatusOr<int64_t> bytes = model::CheckLoad(draft);
    if (!bytes.ok()) return OfModel("draft", bytes.status());
    draft_bytes = *bytes;
  }
  TANDEM_ASSIGN_OR_RETURN(target_service::EngineOptions target, TargetOptions(serve));
  target.model.reserved_bytes = draft_bytes;
  return OfModel("target", target_service::EngineNamed(serve.device).check(target).status());
}

// `open` gets `options` with the pool, and what logs its progress.
template <typename Open>
auto OpenLogged(const char* role, model::LoadOptions options, std::shared_ptr<ComputePool> pool,
                model::LoadReport& report, const Open& open) -> decltype(open(options)) {
  options.compute = std::move(pool);
  const std::string directory = options.directory;
  options.report = &report;
  // Prints a line per second, and one at the end.
  absl::Time next_line = absl::Now() + absl::Seconds(1);
  options.progress = [&](int64_t done, int64_t all) {
    if (done < all && absl::Now() < next_line) return;
    next_line = absl::Now() + absl::Seconds(1);
    TANDEM_LOG(kInfo) << absl::StrFormat("loading the %s, %s: %.1f of %.1f MB", role, directory,
                                         static_cast<double>(done) / 1e6,
                                         static_cast<double>(all) / 1e6);
  };
  auto opened = open(options);
  if (!opened.ok()) return OfModel(role, opened.status());
  TANDEM_LOG(kInfo) << "the " << role << " is " << report.Text();
  return opened;
}

// Names of the hub become directories. A pull takes long, so a stop signal ends it.
absl::Status FindModels(ServeOptions& options) {
  const process::ExitOnStopSignal pulling;
  TANDEM_ASSIGN_OR_RETURN(
      options.target_model,
      hub::LocalDirectory("--target-model", options.target_model, hub::Need::kModel));
  TANDEM_ASSIGN_OR_RETURN(
      options.draft_model,
      hub::LocalDirectory("--draft-model", options.draft_model, hub::Need::kModel));
  return absl::OkStatus();
}

// A tokenizer may have more ids than its model's embedding, or fewer.
void WarnOfIds(const char* role, const tokenizer::Tokenizer& tokenizer,
               const model::ModelInfo& model) {
  const uint32_t ids = tokenizer.vocabulary_size();
  const uint32_t embedded = model.vocabulary_size;
  if (ids > embedded) {
    TANDEM_LOG(kWarning) << "the tokenizer has " << ids << " ids, and the " << role
                         << "'s model has " << embedded << ": the ids from " << embedded
                         << " on cannot be used";
  }
}

// Sets what both services share: the tokens and their meaning.
template <typename Options>
void Identify(const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer, Options& options) {
  options.tokenizer_id = tokenizer->content_id();
  options.token_hash = [tokenizer](uint32_t token) { return tokenizer->TokenHash(token); };
}

absl::StatusOr<std::unique_ptr<transport::ServerHost>> Host(
    const std::string& address, grpc::Service* service, const std::string& name,
    transport::ServerHostOptions options = {}) {
  options.listen_address = address;
  options.services = {service};
  options.health_names = {name};
  return transport::ServerHost::Start(std::move(options));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelServer>> ModelServer::Start(ServeOptions options) {
  std::vector<transport::ListenAddress> more = options.http.Addresses();
  more.push_back({"--draft-listen", options.draft_listen});
  more.push_back({"--target-listen", options.target_listen});
  TANDEM_RETURN_IF_ERROR(options.server.CheckPortsAndFiles(std::move(more)));
  TANDEM_RETURN_IF_ERROR(options.http.CheckFiles());
  TANDEM_RETURN_IF_ERROR(FindModels(options));
  std::unique_ptr<ModelServer> server(new ModelServer);
  TANDEM_RETURN_IF_ERROR(server->StartTracing());
  TANDEM_RETURN_IF_ERROR(server->Load(options));
  TANDEM_RETURN_IF_ERROR(server->StartDraft(options));
  TANDEM_RETURN_IF_ERROR(server->StartTarget(options));
  TANDEM_RETURN_IF_ERROR(server->StartFront(options));
  return server;
}

absl::Status ModelServer::StartTracing() {
  const auto start = [this](const char* service, std::string instance_id,
                            Traced& traced) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(traced.tracing,
                            telemetry::Tracing::FromEnvironment(
                                {service, instance_id, std::string(base::Version())}, clock_));
    traced.instance_id = std::move(instance_id);
    return absl::OkStatus();
  };
  TANDEM_RETURN_IF_ERROR(start("tandem-draft", messages::NewInstanceId(), draft_tracing_));
  TANDEM_RETURN_IF_ERROR(start("tandem-target", messages::NewInstanceId(), target_tracing_));
  TANDEM_RETURN_IF_ERROR(start("tandem-orchestrator", orchestrator::NewClientId(), front_tracing_));
  TANDEM_LOG(kInfo) << "tracing: " << front_tracing_.tracing->Describe();
  return absl::OkStatus();
}

absl::Status ModelServer::Load(const ServeOptions& options) {
  // Tokenizers first: they load in no time, and a pair that does not fit is refused at once. So is
  // all else that can be known before weights are read.
  TANDEM_ASSIGN_OR_RETURN(tokenizer_, tokenizer::Tokenizer::Load(options.target_model));
  TANDEM_RETURN_IF_ERROR(
      tokenizer::ChatTemplate::Load(options.target_model, options.chat_template_file, *tokenizer_)
          .status());
  // A draft that was made for a target may leave the tokenizer to it.
  if (!options.draft_model.empty()) {
    const auto draft_tokenizer = tokenizer::Tokenizer::Load(options.draft_model);
    if (draft_tokenizer.ok()) {
      TANDEM_RETURN_IF_ERROR(tokenizer::CompareTokenizers("--target-model", *tokenizer_,
                                                          "--draft-model", **draft_tokenizer));
    } else if (!absl::IsNotFound(draft_tokenizer.status())) {
      return draft_tokenizer.status();
    }
  }
  if (!options.front.token_file.empty()) {
    TANDEM_RETURN_IF_ERROR(security::BearerTokens::Load(options.front.token_file).status());
  }
  TANDEM_RETURN_IF_ERROR(CheckModels(options));
  TANDEM_ASSIGN_OR_RETURN(text_drafters_,
                          draft_service::MakeTextDrafters(options.text_drafters, *tokenizer_));
  // One pool: the two models' passes never run on more threads than there are cores.
  auto pool = std::make_shared<ComputePool>(process::ThisMachine().cpus);
  // The draft first: a target that is offloaded takes what is left.
  model::LoadReport draft_report;
  if (!options.draft_model.empty()) {
    TANDEM_ASSIGN_OR_RETURN(model::LoadOptions draft, DraftOptions(options));
    TANDEM_ASSIGN_OR_RETURN(draft_model_,
                            OpenLogged("draft", std::move(draft), pool, draft_report, model::Load));
  }
  model::LoadReport target_report;
  TANDEM_ASSIGN_OR_RETURN(target_service::EngineOptions target, TargetOptions(options));
  target.model.reserved_bytes = draft_report.cache_bytes;
  target.vocabulary_size = tokenizer_->vocabulary_size();
  target.clock = &clock_;
  const auto open = [&](const model::LoadOptions& model) {
    target.model = model;
    return target_service::EngineNamed(options.device).open(target);
  };
  TANDEM_ASSIGN_OR_RETURN(target_engine_,
                          OpenLogged("target", target.model, pool, target_report, open));
  WarnOfIds("target", *tokenizer_, target_engine_->info().model);
  return absl::OkStatus();
}

absl::Status ModelServer::StartDraft(const ServeOptions& options) {
  draft_service::Options draft;
  draft.vocabulary_size = tokenizer_->vocabulary_size();
  if (draft_model_ != nullptr) WarnOfIds("draft", *tokenizer_, draft_model_->info());
  draft_service::AddDrafters(draft_model_.get(), {}, std::move(text_drafters_), draft);
  if (!options.chooses_drafter()) draft.default_drafter = options.drafter;
  Identify(tokenizer_, draft);
  draft.instance_id = draft_tracing_.instance_id;
  if (draft_model_ != nullptr) draft.model_name = hub::ModelName(options.draft_model);
  draft.tracer = draft_tracing_.tracing->tracer();
  draft.clock = &clock_;
  TANDEM_ASSIGN_OR_RETURN(draft_, draft_service::Service::Create(std::move(draft)));
  TANDEM_ASSIGN_OR_RETURN(
      draft_host_, Host(options.draft_listen, draft_->grpc_service(), "tandem.internal.v1.Draft"));
  draft_host_->SetReady(true);
  return absl::OkStatus();
}

absl::Status ModelServer::StartTarget(const ServeOptions& options) {
  target_service::Options target;
  target.max_sequences = options.max_sequences;
  Identify(tokenizer_, target);
  target.instance_id = target_tracing_.instance_id;
  target.model_name = hub::ModelName(options.target_model);
  target.tracer = target_tracing_.tracing->tracer();
  target.clock = &clock_;
  TANDEM_ASSIGN_OR_RETURN(
      target_, target_service::Service::Create(std::move(target), std::move(target_engine_)));
  TANDEM_ASSIGN_OR_RETURN(target_host_, Host(options.target_listen, target_->grpc_service(),
                                             "tandem.internal.v1.Target"));
  target_host_->SetReady(true);
  return absl::OkStatus();
}

absl::Status ModelServer::StartFront(const ServeOptions& options) {
  orchestrator::Options front = options.front;
  // The ports of both stay open, for other orchestrators.
  front.target_channels = {target_host_->InProcessChannel()};
  front.draft_channels = {draft_host_->InProcessChannel()};
  front.tokenizer = tokenizer_;
  front.tokenizer_directory = options.target_model;  // for the model's name
  front.chat_template_file = options.chat_template_file;
  front.browser_guard = options.http.Guard();
  front.client_id = front_tracing_.instance_id;
  front.tracer = front_tracing_.tracing->tracer();
  if (options.chooses_drafter()) front.drafter = options.drafter;
  TANDEM_ASSIGN_OR_RETURN(orchestrator_, orchestrator::Orchestrator::Create(std::move(front)));
  transport::ServerHostOptions host = options.server.HostOptions();
  host.metrics = [this] { return orchestrator_->MetricsText(); };
  host.max_message_bytes = orchestrator::kMaxGrpcMessageBytes;
  TANDEM_ASSIGN_OR_RETURN(front_host_, Host(options.server.listen, orchestrator_->grpc_service(),
                                            "tandem.v1.Generation", std::move(host)));
  const absl::Time deadline = absl::Now() + kReadyPatience;
  absl::Status ready = orchestrator_->Ready();
  while (absl::IsUnavailable(ready) && absl::Now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ready = orchestrator_->Ready();
  }
  TANDEM_RETURN_IF_ERROR(ready);
  front_host_->SetReady(true);
  TANDEM_ASSIGN_OR_RETURN(http_, options.http.Start(options.server, options.front.loop.abort_after,
                                                    orchestrator_->http_handler()));
  return absl::OkStatus();
}

void ModelServer::Drain(absl::Duration grace) {
  if (front_host_ == nullptr) return;
  front_host_->SetReady(false);
  orchestrator_->Drain(grace);
  front_host_->Drain(absl::Seconds(1));
  if (http_ != nullptr) http_->Drain(absl::Seconds(1));
  draft_->Drain();
  target_->Drain();
}

ModelServer::~ModelServer() {
  if (front_host_ != nullptr) Drain(absl::ZeroDuration());
  // A host ends before the service that it hosts. The orchestrator's streams end before the
  // services.
  http_ = nullptr;
  front_host_ = nullptr;
  orchestrator_ = nullptr;
  target_host_ = nullptr;
  draft_host_ = nullptr;
}

}  // namespace tandem::all_in_one
