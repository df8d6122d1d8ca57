// What `tandem-model serve` is told.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/flags.h"
#include "common/security/tls_options.h"

namespace tandem::client {

struct ServeOptions {
  ServeOptions();  // threads follow the machine

  std::string target_model;
  std::string draft_model;  // empty: drafts come from the text alone
  std::string listen = "127.0.0.1:50050";
  std::string draft_listen = "127.0.0.1:0";
  std::string target_listen = "127.0.0.1:0";
  std::string admin_listen;        // empty: none
  security::TlsServerOptions tls;  // of listen; the services behind it are this process's own
  std::string token_file;          // who may call; empty: everybody
  std::string port_file;           // empty: none
  std::string drafter;         // the default one; empty: model, or prompt-lookup without a model
  std::string dtype = "auto";  // of the target's weights: auto, fp32 or bf16
  std::string draft_dtype = "auto";         // of the draft's
  std::string generation_config = "model";  // whose sampling defaults count: model, or none
  uint64_t threads = 1;
  uint64_t draft_threads = 1;
  uint64_t slots = 64;  // sequences that the target holds at once
  uint64_t max_active_requests = 256;
  uint64_t max_waiting_requests = 1024;
  absl::Duration admission_patience = absl::Seconds(60);  // of requests without a deadline
  absl::Duration grace = absl::Seconds(10);

  void AddTo(FlagSet& flags);
  absl::Status Validate() const;
};

}  // namespace tandem::client
