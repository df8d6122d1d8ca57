// tandem-draft: proposes blocks.
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/concurrency/system_clock.h"
#include "common/config/log.h"
#include "common/config/log_fields.h"
#include "common/config/process.h"
#include "common/config/status_macros.h"
#include "common/config/version.h"
#include "common/rpc/handshake.h"
#include "common/rpc/server_host.h"
#include "common/telemetry/tracing.h"
#include "common/tokenizer/tokenizer.h"
#include "draft_service/model_drafter.h"
#include "draft_service/prompt_lookup.h"
#include "draft_service/random_drafter.h"
#include "draft_service/service.h"
#include "model/load.h"

ABSL_FLAG(std::string, model, "",
          "Directory with config.json, *.safetensors and tokenizer.json. Empty: no model, only the "
          "drafters prompt-lookup and random; then --tokenizer is needed.");
ABSL_FLAG(std::string, tokenizer, "", "Directory with tokenizer.json; only without --model.");
ABSL_FLAG(std::string, listen, "127.0.0.1:50051", "HOST:PORT to serve on; port 0: any free one.");
ABSL_FLAG(std::string, admin_listen, "",
          "HOST:PORT for health and /metrics, plaintext, for the pod itself; empty: none.");
ABSL_FLAG(std::string, tls_certificate, "",
          "PEM file with the certificate to serve with, and those between it and its authority. "
          "Empty: plaintext. Looked at again when it changes, as all these files.");
ABSL_FLAG(std::string, tls_key, "", "PEM file with its key.");
ABSL_FLAG(std::string, tls_client_ca, "",
          "PEM file with authorities: who connects must show a certificate of one of them. Empty: "
          "nobody is asked for one.");
ABSL_FLAG(std::string, port_file, "", "The bound port is written there once the model is loaded.");
ABSL_FLAG(std::string, dtype, "auto",
          "What the weights are held as: auto (as the file has them), fp32, or bf16 (rounded).");
ABSL_FLAG(
    int32_t, threads, tandem::model::DefaultThreads(2),
    "Threads that compute a step of the model; 1 to 256; absent: two, where there are as many "
    "cores. A small model's steps are too short to divide further.");
ABSL_FLAG(std::string, drafter, "",
          "For requests that name none: model, prompt-lookup or random. Empty: model if there is "
          "one, else prompt-lookup.");
ABSL_FLAG(
    std::string, proposal, "sampled",
    "How the model proposes to requests that do not say: sampled (from its own top-m, sent as "
    "q) or greedy (one-hot).");
ABSL_FLAG(int32_t, top_m, 64, "Entries of q; 1 to 64.");
ABSL_FLAG(uint32_t, most_sequences, 256, "Sequences held at once; 1 to 65536.");
ABSL_FLAG(int32_t, step_rows, 0,
          "The most rows of one step of the model, which all sequences that are drafted or read "
          "share; 1 to "
          "65536. 0: as many as pay on this machine, by the time that steps take.");
ABSL_FLAG(int64_t, pool_tokens, 0,
          "Tokens that all sequences together may hold; 0: as the memory allows.");
ABSL_FLAG(absl::Duration, grace, absl::Seconds(10),
          "After SIGTERM open sequences may go on for this long.");

namespace {

using tandem::config::LogFields;
using tandem::draft_service::ModelDrafterOptions;
using tandem::draft_service::Options;
using tandem::draft_service::Service;
using tandem::model::LanguageModel;
using tandem::telemetry::Tracing;
using tandem::tokenizer::Tokenizer;

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadModel() {
  tandem::model::LoadOptions options;
  options.directory = absl::GetFlag(FLAGS_model);
  options.threads = absl::GetFlag(FLAGS_threads);
  options.sampling_defaults = false;  // they come with each request
  TANDEM_ASSIGN_OR_RETURN(options.dtype, tandem::model::ParseDtype(absl::GetFlag(FLAGS_dtype)));
  options.pool_tokens = absl::GetFlag(FLAGS_pool_tokens);
  int64_t shown = -1;  // tenths
  options.progress = [&shown](int64_t done, int64_t all) {
    const int64_t tenth = all > 0 ? done * 10 / all : 10;
    if (tenth == shown) return;
    shown = tenth;
    TANDEM_LOG(kInfo) << "loading the model: " << tenth * 10 << " %";
  };
  TANDEM_RETURN_IF_ERROR(options.Validate());
  tandem::model::LoadReport report;
  options.report = &report;
  TANDEM_ASSIGN_OR_RETURN(auto model, tandem::model::Load(options));
  TANDEM_LOG(kInfo) << report.Text();
  return model;
}

absl::StatusOr<ModelDrafterOptions> CheckFlags() {
  if (absl::GetFlag(FLAGS_model).empty() == absl::GetFlag(FLAGS_tokenizer).empty()) {
    return absl::InvalidArgumentError(
        "one of --model=DIRECTORY and --tokenizer=DIRECTORY is needed, and not both");
  }
  const absl::Duration grace = absl::GetFlag(FLAGS_grace);
  if (grace < absl::ZeroDuration() || grace > absl::Hours(1)) {
    return absl::InvalidArgumentError("grace must be 0s to 1h");
  }
  ModelDrafterOptions options;
  TANDEM_ASSIGN_OR_RETURN(options.proposal,
                          tandem::draft_service::ParseProposal(absl::GetFlag(FLAGS_proposal)));
  options.top_m = absl::GetFlag(FLAGS_top_m);
  TANDEM_RETURN_IF_ERROR(options.Validate());
  return options;
}

// `model` may be null.
Options MakeOptions(LanguageModel* model, const Tokenizer& tokenizer, ModelDrafterOptions drafter) {
  Options options;
  options.vocabulary_size = tokenizer.vocabulary_size();
  if (model != nullptr) {
    options.vocabulary_size = std::min(options.vocabulary_size, model->info().vocabulary_size);
    options.context_length = model->info().context_length;
    options.model_id = model->info().model_id;
    options.numerics_id = model->info().numerics_id;
    drafter.vocabulary_size = options.vocabulary_size;
    options.drafters.push_back(ModelDrafterFactory(*model, drafter));
  }
  options.drafters.push_back(tandem::draft_service::PromptLookupFactory());
  options.drafters.push_back(
      tandem::draft_service::RandomDrafterFactory({"random", options.vocabulary_size}));
  options.default_drafter = absl::GetFlag(FLAGS_drafter);
  options.tokenizer_id = tokenizer.content_id();
  options.token_hash = [&tokenizer](uint32_t token) { return tokenizer.TokenHash(token); };
  options.most_sequences = absl::GetFlag(FLAGS_most_sequences);
  options.step_rows = absl::GetFlag(FLAGS_step_rows);
  return options;
}

// All that was decided, by flags or without them. `model` may be null.
void LogStart(const Options& options, const std::string& directory, const LanguageModel* model,
              const std::string& tracing) {
  auto name = [](std::string* out, const tandem::draft_service::DrafterFactory& drafter) {
    out->append(drafter.name);
  };
  LogFields start("start");
  start.Add("service", "draft")
      .Add("version", tandem::config::Version())
      .Add("instance", options.instance_id)
      .Add("directory", directory);
  if (model != nullptr) {
    start.Add("model_id", options.model_id)
        .Add("numerics_id", options.numerics_id)
        .Add("dtype", absl::GetFlag(FLAGS_dtype))
        .Add("threads", absl::GetFlag(FLAGS_threads))
        .Add("context_length", options.context_length)
        .Add("proposal", absl::GetFlag(FLAGS_proposal))
        .Add("top_m", absl::GetFlag(FLAGS_top_m))
        .Add("step_rows", options.step_rows == 0 ? "automatic" : absl::StrCat(options.step_rows))
        .Add("pool_tokens", absl::GetFlag(FLAGS_pool_tokens) == 0
                                ? "automatic"
                                : absl::StrCat(absl::GetFlag(FLAGS_pool_tokens)));
  }
  start.Add("tokenizer_id", options.tokenizer_id)
      .Add("vocabulary_size", options.vocabulary_size)
      .Add("drafters", absl::StrJoin(options.drafters, ",", name))
      .Add("default_drafter", options.default_drafter.empty() ? options.drafters.front().name
                                                              : options.default_drafter)
      .Add("most_candidates", options.most_candidates)
      .Add("most_sequences", options.most_sequences)
      .Add("listen", absl::GetFlag(FLAGS_listen))
      .Add("admin_listen", absl::GetFlag(FLAGS_admin_listen))
      .Add("grace", absl::GetFlag(FLAGS_grace))
      .Add("tracing", tracing);
  TANDEM_LOG(kInfo) << start;
}

// Until SIGTERM or SIGINT, and then until the open sequences are done.
void ServeUntilSignal(Service& service, tandem::rpc::ServerHost& host) {
  tandem::config::WatchUntilStopSignal([&service] { return service.busy_for(); },
                                       [&host](bool alive) { host.SetAlive(alive); });
  const absl::Duration grace = absl::GetFlag(FLAGS_grace);
  TANDEM_LOG(kInfo)
      << LogFields("draining").Add("sequences", service.active_sequences()).Add("grace", grace);
  host.SetReady(false);
  service.Drain();
  // A second signal ends the waiting.
  const absl::Time end = absl::Now() + grace;
  while (service.active_sequences() > 0 && absl::Now() < end) {
    if (tandem::config::WaitForStopSignal(absl::Milliseconds(20))) break;
  }
  host.Drain(absl::ZeroDuration());
  TANDEM_LOG(kInfo) << LogFields("stopped").Add("sequences", service.active_sequences());
}

absl::Status Serve() {
  TANDEM_ASSIGN_OR_RETURN(ModelDrafterOptions drafter, CheckFlags());
  const std::string instance_id = tandem::rpc::NewInstanceId();
  const tandem::concurrency::SteadyClock clock;
  // Outlives the service, whose spans end with it.
  TANDEM_ASSIGN_OR_RETURN(
      std::unique_ptr<Tracing> tracing,
      Tracing::FromEnvironment(
          {"tandem-draft", instance_id, std::string(tandem::config::Version())}, clock));
  std::unique_ptr<LanguageModel> model;
  std::string directory = absl::GetFlag(FLAGS_tokenizer);
  if (directory.empty()) {
    directory = absl::GetFlag(FLAGS_model);
    TANDEM_ASSIGN_OR_RETURN(model, LoadModel());
  }
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(directory));
  Options options = MakeOptions(model.get(), *tokenizer, drafter);
  options.instance_id = instance_id;
  options.clock = &clock;
  options.tracer = tracing->tracer();
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Service> service, Service::Create(options));

  tandem::rpc::ServerHostOptions host_options;
  host_options.listen_address = absl::GetFlag(FLAGS_listen);
  host_options.tls = {absl::GetFlag(FLAGS_tls_certificate), absl::GetFlag(FLAGS_tls_key),
                      absl::GetFlag(FLAGS_tls_client_ca)};
  host_options.admin_address = absl::GetFlag(FLAGS_admin_listen);
  host_options.metrics = [&service = *service] { return service.MetricsText(); };
  host_options.services = {service->grpc_service()};
  host_options.health_names = {"tandem.v1.Draft"};
  TANDEM_ASSIGN_OR_RETURN(auto host, tandem::rpc::ServerHost::Start(host_options));
  LogStart(options, directory, model.get(), tracing->Describe());
  host->SetReady(true);
  LogFields ready("ready");
  ready.Add("port", host->port());
  if (host->admin_port() != 0) ready.Add("admin_port", host->admin_port());
  TANDEM_LOG(kInfo) << ready;
  TANDEM_RETURN_IF_ERROR(
      tandem::config::WritePortFile(absl::GetFlag(FLAGS_port_file), host->port()));
  ServeUntilSignal(*service, *host);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Proposes blocks of tokens, with a small model or without one.\n"
      "  tandem-draft --model=DIRECTORY --listen=HOST:PORT\n"
      "  tandem-draft --tokenizer=DIRECTORY --listen=HOST:PORT");
  tandem::config::DashesToUnderscores(argc, argv);
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    std::cerr << "tandem-draft: \"" << rest[1] << "\" is no flag; all arguments are flags\n";
    return EXIT_FAILURE;
  }
  tandem::config::BlockStopSignals();
  const absl::Status status = Serve();
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << "tandem-draft: " << status.message() << "\n";
  return EXIT_FAILURE;
}
