// tandem-target: checks blocks with one model.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/concurrency/system_clock.h"
#include "common/hub/local_directory.h"
#include "common/hub/snapshot_directory.h"
#include "common/messages/handshake.h"
#include "common/process/machine.h"
#include "common/process/process.h"
#include "common/process/service_main.h"
#include "common/process/standard_output.h"
#include "common/security/grpc_log.h"
#include "common/serving/serve.h"
#include "common/telemetry/tracing.h"
#include "common/tokenizer/tokenizer.h"
#include "model/load.h"
#include "target_service/engines.h"
#include "target_service/flags.h"
#include "target_service/service.h"

namespace {

using tandem::base::LogFields;
using tandem::target_service::Engine;
using tandem::target_service::EngineInfo;
using tandem::target_service::EngineOptions;
using tandem::target_service::Flags;
using tandem::target_service::Options;
using tandem::target_service::Service;
using tandem::telemetry::Tracing;

// `options` are the flags'.
absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(const Flags& flags, EngineOptions options,
                                                   tandem::model::LoadReport& report) {
  int64_t shown = -1;  // tenths
  options.model.progress = [&shown](int64_t done, int64_t all) {
    const int64_t tenth = all > 0 ? done * 10 / all : 10;
    if (tenth == shown) return;
    shown = tenth;
    TANDEM_LOG(kInfo) << "loading the model: " << tenth * 10 << " %";
  };
  options.model.report = &report;
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                          tandem::target_service::EngineNamed(flags.device).open(options));
  TANDEM_LOG(kInfo) << report.Text();
  return engine;
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
void LogStart(const Flags& flags, const Options& options, const EngineInfo& engine,
              const tandem::model::LoadReport& report, const std::string& tracing) {
  const tandem::model::ModelInfo& info = engine.model;
  const tandem::process::Machine machine = tandem::process::ThisMachine();
  TANDEM_LOG(kInfo) << LogFields("start")
                           .Add("service", "target")
                           .Add("version", tandem::base::Version())
                           .Add("instance", options.instance_id)
                           .Add("directory", flags.load.directory)
                           .Add("model_id", info.model_id)
                           .Add("numerics_id", info.numerics_id)
                           .Add("device", flags.device)
                           .Add("dtype", flags.load.dtype)
                           .Add("exact", report.exact)
                           .Add("weight_bytes", report.weight_bytes)
                           .Add("offloaded_bytes", report.offloaded_bytes)
                           .Add("cpus", machine.cpus)
                           .Add("memory_bytes", machine.memory_bytes)
                           .Add("threads", flags.load.threads)
                           .Add("pool_tokens", OrAutomatic(flags.load.pool_tokens))
                           .Add("cache_tokens", report.cache_tokens)
                           .Add("pool_bytes", report.cache_bytes)
                           .Add("kv_cache_dtype", flags.load.cache_dtype)
                           .Add("context_length", info.context_length)
                           .Add("sampling_defaults", DefaultsText(info.sampling_defaults))
                           .Add("tokenizer_id", options.tokenizer_id)
                           .Add("vocabulary_size", info.vocabulary_size)
                           .Add("max_sequences", options.max_sequences)
                           .Add("max_draft_tokens", options.max_draft_tokens)
                           .Add("max_nodes", options.max_nodes)
                           .Add("prefill_rows", options.prefill_rows)
                           .Add("pass_rows", OrAutomatic(options.pass_rows))
                           .Add("measure", options.measure)
                           .Add("linger", options.linger)
                           .Add("grace", flags.server.grace)
                           .Add("listen", flags.server.listen)
                           .Add("admin_listen", flags.server.admin_listen)
                           .Add("tracing", tracing);
}

absl::Status CheckDevice(Flags flags) {
  TANDEM_ASSIGN_OR_RETURN(
      flags.load.directory,
      tandem::hub::LocalDirectory("--model", flags.load.directory, tandem::hub::Need::kModel));
  TANDEM_ASSIGN_OR_RETURN(const EngineOptions options, flags.EngineOptions());
  TANDEM_ASSIGN_OR_RETURN(const tandem::target_service::SelfCheck check,
                          tandem::target_service::EngineNamed(flags.device).self_check(options));
  tandem::process::Print(check.text);
  TANDEM_RETURN_IF_ERROR(tandem::process::PrintStatus());
  if (check.passed) return absl::OkStatus();
  return absl::FailedPreconditionError("the device failed its self-check; the table says where");
}

absl::Status Serve(Flags flags) {
  if (flags.check_device) return CheckDevice(flags);
  tandem::security::TakeOverGrpcLog();
  auto starting = std::make_unique<tandem::process::ExitOnStopSignal>();
  TANDEM_RETURN_IF_ERROR(flags.server.CheckPortsAndFiles());
  TANDEM_ASSIGN_OR_RETURN(
      flags.load.directory,
      tandem::hub::LocalDirectory("--model", flags.load.directory, tandem::hub::Need::kModel));
  Options options = flags.options;
  const tandem::concurrency::SteadyClock clock;
  options.clock = &clock;
  options.instance_id = tandem::messages::NewInstanceId();
  options.model_name = tandem::hub::ModelName(flags.load.directory);
  // Before the service, which ends its spans while it ends.
  TANDEM_ASSIGN_OR_RETURN(
      std::unique_ptr<Tracing> tracing,
      Tracing::FromEnvironment(
          {"tandem-target", options.instance_id, std::string(tandem::base::Version())}, clock));
  options.tracer = tracing->tracer();
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<tandem::tokenizer::Tokenizer> tokenizer,
                          tandem::tokenizer::Tokenizer::Load(flags.load.directory));
  TANDEM_ASSIGN_OR_RETURN(EngineOptions engine_options, flags.EngineOptions());
  engine_options.vocabulary_size = tokenizer->vocabulary_size();
  engine_options.clock = &clock;
  tandem::model::LoadReport report;
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                          OpenEngine(flags, std::move(engine_options), report));
  options.tokenizer_id = tokenizer->content_id();
  options.token_hash = [&tokenizer = *tokenizer](uint32_t token) {
    return tokenizer.TokenHash(token);
  };
  const EngineInfo info = engine->info();
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Service> service,
                          Service::Create(options, std::move(engine)));

  starting = nullptr;  // before anybody can come
  return tandem::serving::Serve(*service, "tandem.internal.v1.Target", flags.server, [&] {
    LogStart(flags, options, info, report, tracing->Describe());
  });
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  return tandem::process::RunService(
      argc, argv,
      {.name = "tandem-target",
       .summary = "Verifies blocks of draft tokens with a model.",
       .arguments = "--model=MODEL --listen=HOST:PORT [flags]",
       .add_flags = [&flags](tandem::flags::FlagSet& set) { flags.AddTo(set); },
       .check = [&flags] { return flags.Validate(); },
       .serve = [&flags] { return Serve(flags); }});
}
