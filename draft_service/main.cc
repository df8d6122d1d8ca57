// tandem-draft: proposes blocks.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
#include "common/security/grpc_log.h"
#include "common/serving/serve.h"
#include "common/telemetry/tracing.h"
#include "common/tokenizer/content_id.h"
#include "common/tokenizer/tokenizer.h"
#include "draft_service/drafters/model_drafter.h"
#include "draft_service/flags.h"
#include "draft_service/serving/service.h"
#include "draft_service/text_drafters.h"
#include "model/load.h"
#include "torch/load.h"

namespace {

using tandem::base::LogFields;
using tandem::draft_service::Flags;
using tandem::draft_service::ModelDrafterOptions;
using tandem::draft_service::Options;
using tandem::draft_service::Service;
using tandem::model::LanguageModel;
using tandem::model::LoadOptions;
using tandem::telemetry::Tracing;
using tandem::tokenizer::Tokenizer;

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadModel(const Flags& flags) {
  TANDEM_ASSIGN_OR_RETURN(LoadOptions options, flags.LoadOptions());
  int64_t shown = -1;  // tenths
  options.progress = [&shown](int64_t done, int64_t all) {
    const int64_t tenth = all > 0 ? done * 10 / all : 10;
    if (tenth == shown) return;
    shown = tenth;
    TANDEM_LOG(kInfo) << "loading the model: " << tenth * 10 << " %";
  };
  tandem::model::LoadReport report;
  options.report = &report;
  TANDEM_ASSIGN_OR_RETURN(auto model, tandem::torch::LoadFor(flags.device, options));
  TANDEM_LOG(kInfo) << report.Text();
  return model;
}

// `model` may be null. `text`: the drafters without one.
Options MakeOptions(const Flags& flags, LanguageModel* model, const Tokenizer& tokenizer,
                    ModelDrafterOptions drafter, tandem::draft_service::TextDrafters text) {
  Options options = flags.options;
  options.vocabulary_size = tokenizer.vocabulary_size();
  AddDrafters(model, drafter, std::move(text), options);
  options.tokenizer_id = tokenizer.content_id();
  options.token_hash = [&tokenizer](uint32_t token) { return tokenizer.TokenHash(token); };
  return options;
}

// All that was decided, by flags or without them. `model` may be null.
void LogStart(const Flags& flags, const Options& options, const std::string& directory,
              const LanguageModel* model, const std::string& tracing) {
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
        .Add("dtype", flags.load.dtype)
        .Add("threads", flags.load.threads)
        .Add("context_length", options.context_length)
        .Add("proposal", flags.proposal)
        .Add("top_m", flags.drafter.top_m)
        .Add("pass_rows", options.pass_rows == 0 ? "automatic" : absl::StrCat(options.pass_rows))
        .Add("pool_tokens",
             flags.load.pool_tokens == 0 ? "automatic" : absl::StrCat(flags.load.pool_tokens))
        .Add("kv_cache_dtype", flags.load.cache_dtype);
    if (const auto room = model->room()) start.Add("cache_tokens", room->tokens);
  }
  start.Add("tokenizer_id", options.tokenizer_id)
      .Add("vocabulary_size", options.vocabulary_size)
      .Add("drafters", absl::StrJoin(options.drafters, ",", name))
      .Add("default_drafter", options.default_drafter.empty() ? options.drafters.front().name
                                                              : options.default_drafter)
      .Add("max_draft_tokens", options.max_draft_tokens)
      .Add("max_sequences", options.max_sequences)
      .Add("listen", flags.server.listen)
      .Add("admin_listen", flags.server.admin_listen)
      .Add("grace", flags.server.grace)
      .Add("tracing", tracing);
  TANDEM_LOG(kInfo) << start;
}

// A model may leave the tokenizer to --tokenizer; where it has its own, both are one.
absl::Status CompareWithModel(const Tokenizer& tokenizer, const std::string& model) {
  const absl::StatusOr<std::unique_ptr<Tokenizer>> own = Tokenizer::Load(model);
  if (absl::IsNotFound(own.status())) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(own.status());
  return tandem::tokenizer::CompareTokenizers("--tokenizer", tokenizer, "--model", **own);
}

absl::Status Serve(Flags flags) {
  tandem::security::TakeOverGrpcLog();
  auto starting = std::make_unique<tandem::process::ExitOnStopSignal>();
  TANDEM_RETURN_IF_ERROR(flags.server.CheckPortsAndFiles());
  TANDEM_ASSIGN_OR_RETURN(
      flags.load.directory,
      tandem::hub::LocalDirectory("--model", flags.load.directory, tandem::hub::Need::kModel));
  TANDEM_ASSIGN_OR_RETURN(
      flags.tokenizer,
      tandem::hub::LocalDirectory("--tokenizer", flags.tokenizer, tandem::hub::Need::kTokenizer));
  TANDEM_ASSIGN_OR_RETURN(const ModelDrafterOptions drafter, flags.DrafterOptions());
  const std::string instance_id = tandem::messages::NewInstanceId();
  const tandem::concurrency::SteadyClock clock;
  // Outlives the service, whose spans end with it.
  TANDEM_ASSIGN_OR_RETURN(
      std::unique_ptr<Tracing> tracing,
      Tracing::FromEnvironment({"tandem-draft", instance_id, std::string(tandem::base::Version())},
                               clock));
  const std::string directory = flags.with_model() ? flags.load.directory : flags.tokenizer;
  TANDEM_ASSIGN_OR_RETURN(
      std::unique_ptr<Tokenizer> tokenizer,
      Tokenizer::Load(flags.tokenizer.empty() ? flags.load.directory : flags.tokenizer));
  if (flags.with_model() && !flags.tokenizer.empty()) {
    TANDEM_RETURN_IF_ERROR(CompareWithModel(*tokenizer, flags.load.directory));
  }
  if (flags.with_model()) {  // counting a corpus takes long, too
    TANDEM_ASSIGN_OR_RETURN(const LoadOptions load, flags.LoadOptions());
    TANDEM_RETURN_IF_ERROR(tandem::torch::CheckLoadFor(flags.device, load).status());
  }
  TANDEM_ASSIGN_OR_RETURN(auto text, MakeTextDrafters(flags.text, *tokenizer));
  std::unique_ptr<LanguageModel> model;
  if (flags.with_model()) {
    TANDEM_ASSIGN_OR_RETURN(model, LoadModel(flags));
  }
  Options options = MakeOptions(flags, model.get(), *tokenizer, drafter, std::move(text));
  options.instance_id = instance_id;
  if (model != nullptr) options.model_name = tandem::hub::ModelName(directory);
  options.clock = &clock;
  options.tracer = tracing->tracer();
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Service> service, Service::Create(options));

  starting = nullptr;  // before anybody can come
  return tandem::serving::Serve(*service, "tandem.internal.v1.Draft", flags.server, [&] {
    LogStart(flags, options, directory, model.get(), tracing->Describe());
  });
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  return tandem::process::RunService(
      argc, argv,
      {.name = "tandem-draft",
       .summary = "Proposes blocks of draft tokens, with a small model or without one.",
       .arguments = "--model=MODEL|--tokenizer=MODEL --listen=HOST:PORT [flags]",
       .add_flags = [&flags](tandem::flags::FlagSet& set) { flags.AddTo(set); },
       .check = [&flags] { return flags.Validate(); },
       .serve = [&flags] { return Serve(flags); }});
}
