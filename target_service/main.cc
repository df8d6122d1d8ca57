// tandem-target: checks blocks with one model.
#include <algorithm>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
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
#include "model/load.h"
#include "target_service/engine/cpu_engine.h"
#include "target_service/service.h"

using tandem::process::NumberFlag;
using tandem::process::TimeFlag;
using Threads = NumberFlag<1, 256>;
using Sequences = NumberFlag<1, 65536>;
using SmallNumber = NumberFlag<1, 64>;
using Rows = NumberFlag<0, 65536>;
using PoolTokens = NumberFlag<0, (int64_t{1} << 32)>;

ABSL_FLAG(std::string, model, "",
          "Directory with config.json, *.safetensors and tokenizer.json. Needed.");
ABSL_FLAG(std::string, listen, "127.0.0.1:50052", "HOST:PORT to serve on; port 0: any free one.");
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
    std::string, generation_config, "model",
    "Whose sampling values are the defaults of requests that say nothing: model (those of the "
    "directory's generation_config.json; do_sample: false is temperature 0), or none.");
ABSL_FLAG(Threads, threads, {tandem::model::DefaultThreads(256)},
          "Threads that compute a step; 1 to 256; absent: all cores that the scheduler and the "
          "control groups allow.");
ABSL_FLAG(Sequences, max_sequences, {64}, "Sequences held at once; 1 to 65536.");
ABSL_FLAG(SmallNumber, max_draft_tokens, {16}, "Candidates in a block; 1 to 64.");
ABSL_FLAG(Sequences, prefill_rows, {128},
          "Rows of a pass that long prompts may take while rounds wait.");
ABSL_FLAG(Rows, pass_rows, {0},
          "Rows that a pass aims at; 0: as the measured cost of passes makes worth while.");
ABSL_FLAG(TimeFlag, measure, {absl::Milliseconds(500)},
          "How long the cost of passes is measured at the start; 0s to 1m.");
ABSL_FLAG(TimeFlag, linger, {absl::Seconds(2)},
          "How long the sequences of a broken stream are kept for it to come back; 0s to 1h.");
ABSL_FLAG(PoolTokens, pool_tokens, {0},
          "Tokens that all sequences together may hold; 0: as the memory allows.");
ABSL_FLAG(TimeFlag, grace, {absl::Seconds(10)},
          "After SIGTERM open sequences may go on for this long; 0s to 1h.");

namespace {

using tandem::base::LogFields;
using tandem::model::LoadOptions;
using tandem::target_service::CpuEngine;
using tandem::target_service::CpuEngineOptions;
using tandem::target_service::EngineInfo;
using tandem::target_service::Options;
using tandem::target_service::Service;
using tandem::telemetry::Tracing;
using tandem::transport::ServerHost;
using tandem::transport::ServerHostOptions;

Options OptionsFromFlags() {
  Options options;
  options.max_sequences = static_cast<uint32_t>(absl::GetFlag(FLAGS_max_sequences).value);
  options.max_draft_tokens = static_cast<uint32_t>(absl::GetFlag(FLAGS_max_draft_tokens).value);
  options.prefill_rows = static_cast<uint32_t>(absl::GetFlag(FLAGS_prefill_rows).value);
  options.pass_rows = static_cast<uint32_t>(absl::GetFlag(FLAGS_pass_rows).value);
  options.measure = absl::GetFlag(FLAGS_measure).value;
  options.linger = absl::GetFlag(FLAGS_linger).value;
  return options;
}

absl::StatusOr<LoadOptions> LoadOptionsFromFlags() {
  LoadOptions options;
  options.directory = absl::GetFlag(FLAGS_model);
  options.threads = static_cast<int>(absl::GetFlag(FLAGS_threads).value);
  TANDEM_ASSIGN_OR_RETURN(options.dtype, tandem::model::ParseDtype(absl::GetFlag(FLAGS_dtype)));
  options.pool_tokens = absl::GetFlag(FLAGS_pool_tokens).value;
  options.sampling_defaults = absl::GetFlag(FLAGS_generation_config) == "model";
  TANDEM_RETURN_IF_ERROR(options.Validate());
  return options;
}

ServerHostOptions HostOptionsFromFlags() {
  ServerHostOptions options;
  options.listen_address = absl::GetFlag(FLAGS_listen);
  options.tls = {absl::GetFlag(FLAGS_tls_certificate), absl::GetFlag(FLAGS_tls_key),
                 absl::GetFlag(FLAGS_tls_client_ca)};
  options.admin_address = absl::GetFlag(FLAGS_admin_listen);
  options.health_names = {"tandem.v1.Target"};
  return options;
}

absl::Status CheckFlags() {
  if (absl::GetFlag(FLAGS_model).empty()) {
    return absl::InvalidArgumentError("--model=DIRECTORY is needed");
  }
  const std::string defaults = absl::GetFlag(FLAGS_generation_config);
  if (defaults != "model" && defaults != "none") {
    return absl::InvalidArgumentError(
        absl::StrCat("generation_config is \"", defaults, "\"; there are model and none"));
  }
  TANDEM_RETURN_IF_ERROR(
      tandem::process::CheckTimeFlag("grace", absl::GetFlag(FLAGS_grace).value, absl::Hours(1)));
  TANDEM_RETURN_IF_ERROR(LoadOptionsFromFlags().status());
  TANDEM_RETURN_IF_ERROR(HostOptionsFromFlags().Validate());
  return OptionsFromFlags().Validate();
}

absl::StatusOr<std::unique_ptr<tandem::model::LanguageModel>> LoadModel(
    tandem::model::LoadReport& report) {
  TANDEM_ASSIGN_OR_RETURN(LoadOptions options, LoadOptionsFromFlags());
  int64_t shown = -1;  // tenths
  options.progress = [&shown](int64_t done, int64_t all) {
    const int64_t tenth = all > 0 ? done * 10 / all : 10;
    if (tenth == shown) return;
    shown = tenth;
    TANDEM_LOG(kInfo) << "loading the model: " << tenth * 10 << " %";
  };
  options.report = &report;
  TANDEM_ASSIGN_OR_RETURN(auto model, tandem::model::Load(options));
  TANDEM_LOG(kInfo) << report.Text();
  return model;
}

// "temperature:0.6,top_p:0.9"; "none".
std::string DefaultsText(const tandem::model::SamplingDefaults& defaults) {
  std::string text;
  auto add = [&text](const char* name, const auto& value) {
    if (value) absl::StrAppend(&text, text.empty() ? "" : ",", name, ":", *value);
  };
  add("temperature", defaults.temperature);
  add("top_k", defaults.top_k);
  add("top_p", defaults.top_p);
  add("min_p", defaults.min_p);
  add("repetition_penalty", defaults.repetition_penalty);
  return text.empty() ? "none" : text;
}

// "automatic" for 0.
std::string OrAutomatic(int64_t value) { return value == 0 ? "automatic" : absl::StrCat(value); }

// All that was decided, by flags or without them.
void LogStart(const Options& options, const EngineInfo& engine,
              const tandem::model::LoadReport& report, const std::string& tracing) {
  const tandem::model::ModelInfo& info = engine.model;
  const tandem::process::Machine machine = tandem::process::ThisMachine();
  TANDEM_LOG(kInfo) << LogFields("start")
                           .Add("service", "target")
                           .Add("version", tandem::base::Version())
                           .Add("instance", options.instance_id)
                           .Add("directory", absl::GetFlag(FLAGS_model))
                           .Add("model_id", info.model_id)
                           .Add("numerics_id", info.numerics_id)
                           .Add("dtype", absl::GetFlag(FLAGS_dtype))
                           .Add("exact", report.exact)
                           .Add("weight_bytes", report.weight_bytes)
                           .Add("cpus", machine.cpus)
                           .Add("memory_bytes", machine.memory_bytes)
                           .Add("threads", absl::GetFlag(FLAGS_threads).value)
                           .Add("pool_tokens", OrAutomatic(absl::GetFlag(FLAGS_pool_tokens).value))
                           .Add("pool_bytes", report.cache_bytes)
                           .Add("context_length", info.context_length)
                           .Add("sampling_defaults", DefaultsText(info.sampling_defaults))
                           .Add("tokenizer_id", options.tokenizer_id)
                           .Add("vocabulary_size", info.vocabulary_size)
                           .Add("max_sequences", options.max_sequences)
                           .Add("max_draft_tokens", options.max_draft_tokens)
                           .Add("prefill_rows", options.prefill_rows)
                           .Add("pass_rows", OrAutomatic(options.pass_rows))
                           .Add("measure", options.measure)
                           .Add("linger", options.linger)
                           .Add("grace", absl::GetFlag(FLAGS_grace).value)
                           .Add("listen", absl::GetFlag(FLAGS_listen))
                           .Add("admin_listen", absl::GetFlag(FLAGS_admin_listen))
                           .Add("tracing", tracing);
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
  // For those that linger nobody may ever come.
  const auto open = [&service] {
    return service.active_sequences() -
           std::min(service.active_sequences(), service.lingering_sequences());
  };
  const tandem::process::DrainEnd end =
      tandem::process::WaitUntilDrained([&open] { return open() == 0; }, grace);
  const size_t rest = open();
  host.Refuse();
  service.End();
  host.Drain(absl::Seconds(1));  // for last messages on their way
  TANDEM_LOG(kInfo) << LogFields("stopped")
                           .Add("waiting_ended", tandem::process::DrainEndName(end))
                           .Add("sequences_ended", rest);
}

absl::Status Serve() {
  auto starting = std::make_unique<tandem::process::ExitOnStopSignal>();
  Options options = OptionsFromFlags();
  const tandem::concurrency::SteadyClock clock;
  options.clock = &clock;
  options.instance_id = tandem::messages::NewInstanceId();
  // Before the service, which ends its spans while it ends.
  TANDEM_ASSIGN_OR_RETURN(
      std::unique_ptr<Tracing> tracing,
      Tracing::FromEnvironment(
          {"tandem-target", options.instance_id, std::string(tandem::base::Version())}, clock));
  options.tracer = tracing->tracer();
  tandem::model::LoadReport report;
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<tandem::model::LanguageModel> model, LoadModel(report));
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<tandem::tokenizer::Tokenizer> tokenizer,
                          tandem::tokenizer::Tokenizer::Load(absl::GetFlag(FLAGS_model)));
  options.tokenizer_id = tokenizer->content_id();
  options.token_hash = [&tokenizer = *tokenizer](uint32_t token) {
    return tokenizer.TokenHash(token);
  };
  CpuEngineOptions engine_options;
  engine_options.vocabulary_size =
      std::min(tokenizer->vocabulary_size(), model->info().vocabulary_size);
  engine_options.clock = &clock;
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<CpuEngine> engine,
                          CpuEngine::Create(engine_options, std::move(model)));
  const EngineInfo info = engine->info();
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Service> service,
                          Service::Create(options, std::move(engine)));

  starting = nullptr;  // before anybody can come
  ServerHostOptions host_options = HostOptionsFromFlags();
  host_options.metrics = [&service = *service] { return service.MetricsText(); };
  host_options.services = {service->grpc_service()};
  TANDEM_ASSIGN_OR_RETURN(auto host, ServerHost::Start(host_options));
  LogStart(options, info, report, tracing->Describe());
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
  return tandem::process::RunService(argc, argv,
                                     {"tandem-target",
                                      "Checks blocks of tokens with one model.\n"
                                      "  tandem-target --model=DIRECTORY --listen=HOST:PORT",
                                      CheckFlags, Serve});
}
