// tandem-draft: proposes blocks.
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/concurrency/system_clock.h"
#include "common/messages/handshake.h"
#include "common/process/flag_values.h"
#include "common/process/machine.h"
#include "common/process/process.h"
#include "common/process/service_main.h"
#include "common/telemetry/tracing.h"
#include "common/tokenizer/tokenizer.h"
#include "common/transport/server_host.h"
#include "draft_service/model_drafter.h"
#include "draft_service/prompt_lookup.h"
#include "draft_service/service.h"
#include "model/load.h"

using tandem::process::NumberFlag;
using tandem::process::TimeFlag;
using Threads = NumberFlag<1, 256>;
using Sequences = NumberFlag<1, 65536>;
using SmallNumber = NumberFlag<1, 64>;
using Rows = NumberFlag<0, 65536>;
using PoolTokens = NumberFlag<0, (int64_t{1} << 32)>;

ABSL_FLAG(std::string, model, "",
          "Directory with config.json, *.safetensors and tokenizer.json. Empty: no model, only the "
          "drafter prompt-lookup; then --tokenizer is needed.");
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
    Threads, threads, {tandem::model::DefaultThreads(2)},
    "Threads that compute a step of the model; 1 to 256; absent: two, where there are as many "
    "cores. A small model's steps are too short to divide further.");
ABSL_FLAG(std::string, drafter, "",
          "For requests that name none: model or prompt-lookup. Empty: model if there is one, else "
          "prompt-lookup.");
ABSL_FLAG(
    std::string, proposal, "sampled",
    "How the model proposes to requests that do not say: sampled (from its own top-m, sent as "
    "q) or greedy (one-hot).");
ABSL_FLAG(SmallNumber, top_m, {64}, "Entries of q; 1 to 64.");
ABSL_FLAG(Sequences, max_sequences, {256}, "Sequences held at once; 1 to 65536.");
ABSL_FLAG(Rows, step_rows, {0},
          "The most rows of one step of the model, which all sequences that are drafted or read "
          "share; 1 to "
          "65536. 0: as many as pay on this machine, by the time that steps take.");
ABSL_FLAG(PoolTokens, pool_tokens, {0},
          "Tokens that all sequences together may hold; 0: as the memory allows.");
ABSL_FLAG(
    TimeFlag, grace, {absl::Seconds(10)},
    "After SIGTERM blocks that were asked for may be drafted for this long; 0s to 1h. Sequences "
    "go to another draft at once.");

namespace {

using tandem::base::LogFields;
using tandem::draft_service::ModelDrafterOptions;
using tandem::draft_service::Options;
using tandem::draft_service::Service;
using tandem::model::LanguageModel;
using tandem::model::LoadOptions;
using tandem::telemetry::Tracing;
using tandem::tokenizer::Tokenizer;
using tandem::transport::ServerHost;
using tandem::transport::ServerHostOptions;

absl::StatusOr<LoadOptions> LoadOptionsFromFlags() {
  LoadOptions options;
  options.directory = absl::GetFlag(FLAGS_model);
  options.threads = static_cast<int>(absl::GetFlag(FLAGS_threads).value);
  options.sampling_defaults = false;  // they come with each request
  TANDEM_ASSIGN_OR_RETURN(options.dtype, tandem::model::ParseDtype(absl::GetFlag(FLAGS_dtype)));
  options.pool_tokens = absl::GetFlag(FLAGS_pool_tokens).value;
  TANDEM_RETURN_IF_ERROR(options.Validate());
  return options;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadModel() {
  TANDEM_ASSIGN_OR_RETURN(LoadOptions options, LoadOptionsFromFlags());
  int64_t shown = -1;  // tenths
  options.progress = [&shown](int64_t done, int64_t all) {
    const int64_t tenth = all > 0 ? done * 10 / all : 10;
    if (tenth == shown) return;
    shown = tenth;
    TANDEM_LOG(kInfo) << "loading the model: " << tenth * 10 << " %";
  };
  tandem::model::LoadReport report;
  options.report = &report;
  TANDEM_ASSIGN_OR_RETURN(auto model, tandem::model::Load(options));
  TANDEM_LOG(kInfo) << report.Text();
  return model;
}

absl::StatusOr<ModelDrafterOptions> DrafterOptionsFromFlags() {
  ModelDrafterOptions options;
  TANDEM_ASSIGN_OR_RETURN(options.proposal,
                          tandem::draft_service::ParseProposal(absl::GetFlag(FLAGS_proposal)));
  options.top_m = static_cast<int>(absl::GetFlag(FLAGS_top_m).value);
  TANDEM_RETURN_IF_ERROR(options.Validate());
  return options;
}

ServerHostOptions HostOptionsFromFlags() {
  ServerHostOptions options;
  options.listen_address = absl::GetFlag(FLAGS_listen);
  options.tls = {absl::GetFlag(FLAGS_tls_certificate), absl::GetFlag(FLAGS_tls_key),
                 absl::GetFlag(FLAGS_tls_client_ca)};
  options.admin_address = absl::GetFlag(FLAGS_admin_listen);
  options.health_names = {"tandem.v1.Draft"};
  return options;
}

// What needs no model.
Options OptionsFromFlags() {
  Options options;
  options.default_drafter = absl::GetFlag(FLAGS_drafter);
  options.max_sequences = static_cast<uint32_t>(absl::GetFlag(FLAGS_max_sequences).value);
  options.step_rows = static_cast<int>(absl::GetFlag(FLAGS_step_rows).value);
  return options;
}

absl::Status CheckFlags() {
  const bool with_model = !absl::GetFlag(FLAGS_model).empty();
  if (with_model != absl::GetFlag(FLAGS_tokenizer).empty()) {
    return absl::InvalidArgumentError(
        "one of --model=DIRECTORY and --tokenizer=DIRECTORY is needed, and not both");
  }
  TANDEM_RETURN_IF_ERROR(
      tandem::process::CheckTimeFlag("grace", absl::GetFlag(FLAGS_grace).value, absl::Hours(1)));
  TANDEM_ASSIGN_OR_RETURN(const ModelDrafterOptions drafter, DrafterOptionsFromFlags());
  if (with_model) TANDEM_RETURN_IF_ERROR(LoadOptionsFromFlags().status());
  TANDEM_RETURN_IF_ERROR(HostOptionsFromFlags().Validate());
  // The drafters that there will be, by name.
  Options options = OptionsFromFlags();
  options.vocabulary_size = 1;
  if (with_model) options.drafters.push_back({drafter.name, {}});
  options.drafters.push_back(tandem::draft_service::PromptLookupFactory());
  return options.Validate();
}

// `model` may be null.
Options MakeOptions(LanguageModel* model, const Tokenizer& tokenizer, ModelDrafterOptions drafter) {
  Options options = OptionsFromFlags();
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
  options.tokenizer_id = tokenizer.content_id();
  options.token_hash = [&tokenizer](uint32_t token) { return tokenizer.TokenHash(token); };
  return options;
}

// All that was decided, by flags or without them. `model` may be null.
void LogStart(const Options& options, const std::string& directory, const LanguageModel* model,
              const std::string& tracing) {
  auto name = [](std::string* out, const tandem::draft_service::DrafterFactory& drafter) {
    out->append(drafter.name);
  };
  const tandem::process::Machine machine = tandem::process::ThisMachine();
  LogFields start("start");
  start.Add("service", "draft")
      .Add("version", tandem::base::Version())
      .Add("instance", options.instance_id)
      .Add("directory", directory)
      .Add("cpus", machine.cpus)
      .Add("memory_bytes", machine.memory_bytes);
  if (model != nullptr) {
    start.Add("model_id", options.model_id)
        .Add("numerics_id", options.numerics_id)
        .Add("dtype", absl::GetFlag(FLAGS_dtype))
        .Add("threads", absl::GetFlag(FLAGS_threads).value)
        .Add("context_length", options.context_length)
        .Add("proposal", absl::GetFlag(FLAGS_proposal))
        .Add("top_m", absl::GetFlag(FLAGS_top_m).value)
        .Add("step_rows", options.step_rows == 0 ? "automatic" : absl::StrCat(options.step_rows))
        .Add("pool_tokens", absl::GetFlag(FLAGS_pool_tokens).value == 0
                                ? "automatic"
                                : absl::StrCat(absl::GetFlag(FLAGS_pool_tokens).value));
  }
  start.Add("tokenizer_id", options.tokenizer_id)
      .Add("vocabulary_size", options.vocabulary_size)
      .Add("drafters", absl::StrJoin(options.drafters, ",", name))
      .Add("default_drafter", options.default_drafter.empty() ? options.drafters.front().name
                                                              : options.default_drafter)
      .Add("max_draft_tokens", options.max_draft_tokens)
      .Add("max_sequences", options.max_sequences)
      .Add("listen", absl::GetFlag(FLAGS_listen))
      .Add("admin_listen", absl::GetFlag(FLAGS_admin_listen))
      .Add("grace", absl::GetFlag(FLAGS_grace).value)
      .Add("tracing", tracing);
  TANDEM_LOG(kInfo) << start;
}

// Until SIGTERM or SIGINT, and then until the open sequences are done.
void ServeUntilSignal(Service& service, ServerHost& host) {
  tandem::process::WatchUntilStopSignal([&service] { return service.busy_for(); },
                                        [&host](bool alive) { host.SetAlive(alive); });
  const absl::Duration grace = absl::GetFlag(FLAGS_grace).value;
  TANDEM_LOG(kInfo)
      << LogFields("draining").Add("sequences", service.active_sequences()).Add("grace", grace);
  host.SetReady(false);
  service.Drain();
  const tandem::process::DrainEnd end = tandem::process::WaitUntilDrained(
      [&service] { return service.active_sequences() == 0; }, grace);
  const size_t rest = service.active_sequences();
  host.Refuse();
  service.End();
  host.Drain(absl::Seconds(1));  // for last messages on their way
  TANDEM_LOG(kInfo) << LogFields("stopped")
                           .Add("waiting_ended", tandem::process::DrainEndName(end))
                           .Add("sequences_ended", rest);
}

absl::Status Serve() {
  auto starting = std::make_unique<tandem::process::ExitOnStopSignal>();
  TANDEM_ASSIGN_OR_RETURN(const ModelDrafterOptions drafter, DrafterOptionsFromFlags());
  const std::string instance_id = tandem::messages::NewInstanceId();
  const tandem::concurrency::SteadyClock clock;
  // Outlives the service, whose spans end with it.
  TANDEM_ASSIGN_OR_RETURN(
      std::unique_ptr<Tracing> tracing,
      Tracing::FromEnvironment({"tandem-draft", instance_id, std::string(tandem::base::Version())},
                               clock));
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

  starting = nullptr;  // before anybody can come
  ServerHostOptions host_options = HostOptionsFromFlags();
  host_options.metrics = [&service = *service] { return service.MetricsText(); };
  host_options.services = {service->grpc_service()};
  TANDEM_ASSIGN_OR_RETURN(auto host, ServerHost::Start(host_options));
  LogStart(options, directory, model.get(), tracing->Describe());
  host->SetReady(true);
  LogFields ready("ready");
  ready.Add("port", host->port());
  if (host->admin_port() != 0) ready.Add("admin_port", host->admin_port());
  TANDEM_LOG(kInfo) << ready;
  TANDEM_RETURN_IF_ERROR(
      tandem::process::WritePortFile(absl::GetFlag(FLAGS_port_file), host->port()));
  ServeUntilSignal(*service, *host);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  return tandem::process::RunService(
      argc, argv,
      {"tandem-draft",
       "Proposes blocks of tokens, with a small model or without one.\n"
       "  tandem-draft --model=DIRECTORY --listen=HOST:PORT\n"
       "  tandem-draft --tokenizer=DIRECTORY --listen=HOST:PORT",
       CheckFlags, Serve});
}
