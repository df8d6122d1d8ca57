#include "client/serve_options.h"

#include <algorithm>

#include "common/base/address.h"
#include "common/base/status_macros.h"
#include "common/process/machine.h"

namespace tandem::client {

ServeOptions::ServeOptions() {
  threads = static_cast<uint64_t>(std::clamp(process::ThisMachine().cpus, 1, 256));
  draft_threads = std::min<uint64_t>(threads, 2);  // its steps are too short to divide further
}

void ServeOptions::AddTo(FlagSet& flags) {
  flags.Text("target-model", &target_model, "a Hugging Face directory of the Llama family");
  flags.Text("draft-model", &draft_model,
             "the same with a smaller model; without it drafts come from the text alone");
  flags.Text("listen", &listen, "where clients connect; 127.0.0.1:50050 when absent");
  flags.Text("draft-listen", &draft_listen,
             "the draft service's own port; any free one when absent");
  flags.Text("target-listen", &target_listen,
             "the target service's own port; any free one when absent");
  flags.Text("admin-listen", &admin_listen,
             "health for probes, and the orchestrator's /metrics; none when absent");
  flags.Text("tls-certificate", &tls.certificate,
             "PEM file with the certificate to serve clients with; plaintext when absent");
  flags.Text("tls-key", &tls.key, "PEM file with its key");
  flags.Text("tls-client-ca", &tls.client_ca,
             "PEM file with authorities: clients must show a certificate of one of them");
  flags.Text("token-file", &token_file,
             "tokens of those who may call, one a line; everybody when absent");
  flags.Text("port-file", &port_file, "written with the port of --listen once all is ready");
  flags.Choice("drafter", &drafter, {"model", "prompt-lookup"},
               "the one that requests get that name none: model or prompt-lookup");
  flags.Choice("dtype", &dtype, {"auto", "fp32", "bf16"},
               "what the target's weights are held as: auto (as the file has them), fp32 or bf16");
  flags.Choice("draft-dtype", &draft_dtype, {"auto", "fp32", "bf16"}, "the same for the draft's");
  flags.Choice("generation-config", &generation_config, {"model", "none"},
               "sampling defaults of requests: model (its generation_config.json) or none");
  flags.Number("threads", &threads, 1, 256,
               "of the target's steps; all cores when absent. Together the two models' steps "
               "never take more than the cores there are");
  flags.Number("draft-threads", &draft_threads, 1, 256, "of the draft's; two when absent");
  flags.Number("slots", &slots, 1, 65536, "requests that the target holds at once (64)");
  flags.Number("most-active-requests", &max_active_requests, 1, 65536,
               "requests that run at once; those beyond them wait (256)");
  flags.Number("most-waiting-requests", &max_waiting_requests, 0, 16384,
               "requests that may wait; those beyond them are refused; 0: nobody waits (1024)");
  flags.Duration("admission-patience", &admission_patience,
                 "what a request without a deadline waits to be admitted (60s)");
  flags.Duration("grace", &grace, "what running requests get after SIGTERM (10s)");
}

absl::Status ServeOptions::Validate() const {
  if (target_model.empty()) {
    return absl::InvalidArgumentError(
        "give the model to serve, --target-model=DIR: a folder with config.json, *.safetensors and "
        "tokenizer.json");
  }
  const auto use = base::AddressUse::kListen;
  TANDEM_RETURN_IF_ERROR(base::ParseAddress("--listen", listen, use).status());
  TANDEM_RETURN_IF_ERROR(base::ParseAddress("--draft-listen", draft_listen, use).status());
  TANDEM_RETURN_IF_ERROR(base::ParseAddress("--target-listen", target_listen, use).status());
  if (!admin_listen.empty()) {
    TANDEM_RETURN_IF_ERROR(base::ParseAddress("--admin-listen", admin_listen, use).status());
  }
  TANDEM_RETURN_IF_ERROR(tls.Validate());
  if (admission_patience < absl::Milliseconds(1) || admission_patience > absl::Hours(24)) {
    return BadFlag("admission-patience", absl::FormatDuration(admission_patience),
                   "must be 1ms to 24h");
  }
  if (drafter == "model" && draft_model.empty()) {
    return BadFlag("drafter", drafter, "needs --draft-model=DIR");
  }
  return absl::OkStatus();
}

}  // namespace tandem::client
