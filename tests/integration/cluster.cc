#include "tests/integration/cluster.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/process/library_locks.h"
#include "common/transport/channel.h"
#include "draft_service/drafters/cascade.h"
#include "draft_service/drafters/context_ngram.h"
#include "draft_service/drafters/lookup_first.h"
#include "draft_service/drafters/mixed.h"
#include "draft_service/drafters/prompt_lookup.h"
#include "draft_service/drafters/recall.h"
#include "draft_service/drafters/successor_drafter.h"
#include "draft_service/ngrams/corpus_ngrams.h"
#include "opentelemetry/sdk/trace/exporter.h"
#include "orchestrator/options.h"
#include "tandem/internal/v1/target.grpc.pb.h"
#include "target_service/engine/cpu/cpu_engine.h"
#include "tests/support/random_drafter.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

std::unique_ptr<transport::ServerHost> Host(grpc::Service* service) {
  transport::ServerHostOptions options;
  options.listen_address = "127.0.0.1:0";
  options.services = {service};
  auto host = transport::ServerHost::Start(std::move(options));
  TANDEM_CHECK_OK(host);
  (*host)->SetReady(true);
  return *std::move(host);
}

struct CorpusTables {
  std::shared_ptr<const draft_service::SuccessorTable> unigrams, bigrams;
};

// As MakeTextDrafters makes them of a file.
CorpusTables MakeCorpusTables(const ClusterOptions& cluster) {
  const uint32_t vocabulary_size = cluster.tokenizer->vocabulary_size();
  draft_service::NgramCounter counter(vocabulary_size, 1 << 16);
  counter.Add(cluster.corpus);
  if (cluster.corpus.empty()) {
    for (uint32_t i = 0; i < 200; ++i) counter.Add({(i * i + i / 3) % vocabulary_size});
  }
  const auto unigrams = draft_service::UnigramTable(counter);
  return {unigrams, draft_service::BigramTable(counter, unigrams)};
}

void AddCorpusDrafters(const CorpusTables& tables, draft_service::Options& options) {
  options.drafters.push_back(draft_service::SuccessorFactory("corpus-unigram", tables.unigrams));
  options.drafters.push_back(draft_service::SuccessorFactory("corpus-bigram", tables.bigrams));
  options.drafters.push_back(draft_service::MixedFactory({}, tables.bigrams));
  options.drafters.push_back(draft_service::RecallFactory({.max_tokens = 10'000}));
}

std::unique_ptr<draft_service::Service> StartDraft(ClusterOptions& cluster,
                                                   telemetry::Tracer* tracer) {
  const uint32_t vocabulary_size = cluster.tokenizer->vocabulary_size();
  const CorpusTables tables = MakeCorpusTables(cluster);
  draft_service::Options options;
  if (cluster.instead_of_model.make) {
    options.drafters.push_back(
        {"model", cluster.instead_of_model.make, /*samples=*/true, cluster.instead_of_model.trees});
  } else if (cluster.draft_model != nullptr) {
    cluster.model_drafter.vocabulary_size = vocabulary_size;
    options.drafters.push_back(
        draft_service::ModelDrafterFactory(*cluster.draft_model, cluster.model_drafter));
    options.drafters.push_back(draft_service::CascadeFactory(
        *cluster.draft_model, cluster.model_drafter, {.context = {}, .table = tables.bigrams}));
    options.drafters.push_back(
        draft_service::LookupFirstFactory(*cluster.draft_model, cluster.model_drafter));
    options.model_id = cluster.draft_model->info().model_id;
    options.context_length = cluster.draft_model->info().context_length;
  }
  options.drafters.push_back(draft_service::PromptLookupFactory());
  options.drafters.push_back(RandomDrafterFactory({.vocabulary_size = vocabulary_size}));
  options.drafters.push_back(draft_service::ContextNgramFactory());
  AddCorpusDrafters(tables, options);
  options.vocabulary_size = vocabulary_size;
  options.tokenizer_id = cluster.tokenizer->content_id();
  options.max_sequences = 4096;
  options.tracer = tracer;
  auto service = draft_service::Service::Create(std::move(options));
  TANDEM_CHECK_OK(service);
  return *std::move(service);
}

std::unique_ptr<target_service::Service> StartTarget(ClusterOptions& cluster,
                                                     telemetry::Tracer* tracer) {
  target_service::Options options;
  options.max_sequences = cluster.max_sequences;
  options.linger = cluster.linger;
  options.pass_rows = cluster.pass_rows;
  options.tokenizer_id = cluster.tokenizer->content_id();
  options.tracer = tracer;
  target_service::CpuEngineOptions engine_options;
  engine_options.vocabulary_size =
      std::min(cluster.tokenizer->vocabulary_size(), cluster.target_model->info().vocabulary_size);
  engine_options.judge = cluster.judge;
  auto engine = target_service::CpuEngine::Create(engine_options, std::move(cluster.target_model));
  TANDEM_CHECK_OK(engine);
  auto service = target_service::Service::Create(std::move(options), *std::move(engine));
  TANDEM_CHECK_OK(service);
  return *std::move(service);
}

std::string Through(const std::function<std::string(const std::string&)>& proxy, int port) {
  const std::string address = absl::StrCat("127.0.0.1:", port);
  return proxy ? proxy(address) : address;
}

}  // namespace

ClusterOptions DemoOptions() { return PairOptions(DemoTarget(), DemoDraft()); }

ClusterOptions PatientDemoOptions() {
  ClusterOptions options = DemoOptions();
  options.loop.draft_wait = absl::Seconds(20);
  options.loop.draft_wait_floor = absl::Seconds(20);
  return options;
}

ClusterOptions PairOptions(const std::string& target_directory,
                           const std::string& draft_directory) {
  ClusterOptions options;
  options.target_model = LoadModel(target_directory, 2);
  options.draft_model = LoadModel(draft_directory, 1);
  options.tokenizer = LoadTokenizer(target_directory);
  for (const std::string& text : TenPrompts()) {
    const std::vector<uint32_t> tokens = *options.tokenizer->Encode(text, false);
    options.corpus.insert(options.corpus.end(), tokens.begin(), tokens.end());
  }
  return options;
}

InProcessCluster::InProcessCluster(ClusterOptions options) : options_(std::move(options)) {
  // As the services' programs do. Under ThreadSanitizer the order of locks is checked.
  process::StopDeadlockDetection();
  draft_ = StartDraft(options_, Trace("tandem-draft"));
  target_ = StartTarget(options_, Trace("tandem-target"));
  draft_host_ = Host(draft_->grpc_service());
  target_host_ = Host(target_->grpc_service());
  orchestrator::Options front;
  if (options_.without_sockets) {
    front.target_channels = {target_host_->InProcessChannel()};
    front.draft_channels = {draft_host_->InProcessChannel()};
  } else {
    front.target_addresses = {Through(options_.target_proxy, target_port())};
    front.draft_addresses = {Through(options_.draft_proxy, draft_port())};
  }
  front.tokenizer = options_.tokenizer;
  front.max_active_requests = options_.max_active_requests;
  front.max_waiting_requests = options_.max_waiting_requests;
  front.default_max_tokens = options_.default_max_tokens;
  front.loop = options_.loop;
  front.always_tries_drafters = options_.always_tries_drafters;
  front.decide = options_.decide;
  front.tracer = Trace("tandem-orchestrator");
  auto orchestrator = orchestrator::Orchestrator::Create(std::move(front));
  TANDEM_CHECK_OK(orchestrator);
  orchestrator_ = *std::move(orchestrator);
  front_host_ = Host(orchestrator_->grpc_service());
  const bool ready = WaitUntil([&] { return orchestrator_->Ready().ok(); });
  TANDEM_CHECK(ready) << orchestrator_->Ready();
  channel_ = options_.without_sockets ? front_host_->InProcessChannel()
                                      : transport::MakeChannel(absl::StrCat("127.0.0.1:", port()));
}

telemetry::Tracer* InProcessCluster::Trace(const std::string& service) {
  if (!options_.trace_ratio.has_value()) return nullptr;
  tracing_.push_back(telemetry::Tracing::ForExporter({.service_name = service}, clock_,
                                                     spans_.Exporter(), *options_.trace_ratio));
  return tracing_.back()->tracer();
}

InProcessCluster::~InProcessCluster() {
  orchestrator_->Drain(absl::ZeroDuration());
  front_host_ = nullptr;
  orchestrator_ = nullptr;
  target_host_ = nullptr;
  draft_host_ = nullptr;
}

uint64_t InProcessCluster::target_rows() const {
  const auto stub = internal::v1::Target::NewStub(target_host_->InProcessChannel());
  grpc::ClientContext context;
  v1::DescribeReply reply;
  const grpc::Status status = stub->Describe(&context, {}, &reply);
  TANDEM_CHECK(status.ok()) << status.error_message();
  return reply.load().pass_rows();
}

bool InProcessCluster::AllFreed(absl::Duration patience) const {
  return WaitUntil([&] { return target_sequences() == 0 && draft_sequences() == 0; }, patience);
}

}  // namespace tandem::testing
