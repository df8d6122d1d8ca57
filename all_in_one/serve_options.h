// What `tandem-model serve` is told.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/flags/flag_set.h"
#include "common/transport/server_flags.h"

namespace tandem::all_in_one {

struct ServeOptions {
  ServeOptions();  // threads follow the machine

  std::string target_model;
  std::string draft_model;  // empty: drafts come from the text alone
  // Where clients connect; the services behind it are this process's own.
  transport::ServerFlags server;
  std::string draft_listen = "127.0.0.1:0";
  std::string target_listen = "127.0.0.1:0";
  std::string token_file;      // who may call; empty: everybody
  std::string drafter;         // the default one; empty: model, or prompt-lookup without a model
  std::string dtype = "auto";  // of the target's weights: auto, fp32 or bf16
  std::string draft_dtype = "auto";         // of the draft's
  std::string generation_config = "model";  // whose sampling defaults count: model, or none
  uint64_t threads = 1;
  uint64_t draft_threads = 1;
  uint32_t max_sequences = 64;  // that the target holds at once
  uint32_t max_active_requests = 256;
  uint32_t max_waiting_requests = 1024;
  absl::Duration admission_patience = absl::Seconds(60);  // of requests without a deadline

  void AddTo(flags::FlagSet& flags);
  absl::Status Validate() const;
};

}  // namespace tandem::all_in_one
