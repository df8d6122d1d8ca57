// The options of `tandem-model serve`.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/flags/flag_set.h"
#include "common/transport/server_flags.h"
#include "draft_service/text_drafters.h"
#include "orchestrator/http_front.h"
#include "orchestrator/options.h"

namespace tandem::all_in_one {

struct ServeOptions {
  ServeOptions();  // sets the threads by the machine's cores

  std::string target_model;
  std::string draft_model;         // empty: there is no model drafter
  std::string chat_template_file;  // empty: the target model's own
  // Clients connect here. The services behind it belong to this process.
  transport::ServerFlags server;
  orchestrator::HttpFlags http;
  std::string draft_listen = "127.0.0.1:0";
  std::string target_listen = "127.0.0.1:0";
  // Of requests that name none: one; or several separated by commas, or auto. Empty: model if there
  // is one, else prompt-lookup.
  std::string drafter;
  // The orchestrator is to choose; the draft service's default is not changed.
  bool chooses_drafter() const {
    return drafter == "auto" || drafter.find(',') != std::string::npos;
  }
  draft_service::TextDrafterOptions text_drafters;  // those without a model
  std::string device;                // the target's engine (target_service/engines.h)
  std::string dtype = "auto";        // the target's weights: auto, fp32 or bf16
  std::string draft_dtype = "auto";  // the draft's weights
  // Of a card's free memory, what the target fills where pool_tokens is 0.
  std::optional<double> gpu_memory_utilization;
  bool offload = false;                    // the target's weights that do not fit stay in the file
  std::string cache_dtype = "auto";        // the target's keys and values: auto, fp32 or bf16
  std::string draft_cache_dtype = "auto";  // the draft's
  int max_rows = 256;                      // of a pass of the target
  int64_t pool_tokens = 0;        // that all of the target's sequences hold; 0: as memory allows
  int64_t draft_pool_tokens = 0;  // the same for the draft's
  std::string generation_config = "model";  // source of sampling defaults: model, none
  uint64_t threads = 1;
  uint64_t draft_threads = 1;
  uint32_t max_sequences = 64;  // that the target holds at the same time
  // What flags say of requests, rounds and callers; its peers and its tokenizer are ModelServer's.
  orchestrator::Options front;

  void AddTo(flags::FlagSet& flags);
  absl::Status Validate() const;
};

}  // namespace tandem::all_in_one
