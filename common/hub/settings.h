// What the environment says about the hub: the variables of huggingface_hub, so that both share one
// cache and one token.
//
// Thread safety: plain values.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tandem::hub {

struct Settings {
  // HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else $HF_HOME/hub. HF_HOME is
  // $XDG_CACHE_HOME/huggingface or ~/.cache/huggingface where it is not set. May not exist yet.
  std::string cache;
  // Without a '/' at its end. HF_ENDPOINT, else the public hub.
  std::string endpoint;
  // HF_TOKEN, else HUGGING_FACE_HUB_TOKEN, else what the file HF_TOKEN_PATH ($HF_HOME/token) holds.
  // Empty: there is none. A secret: never in a log or an error.
  std::string token;
  // Where the token is from, for errors: a variable's name, or a path. Empty: there is none.
  std::string token_source;
  bool offline = false;  // HF_HUB_OFFLINE, else TRANSFORMERS_OFFLINE: 1, on, yes or true
  // HF_HUB_DOWNLOAD_TIMEOUT, in seconds: a connection that brings nothing for so long is given up.
  absl::Duration timeout = absl::Seconds(10);
};

// `variable` gives the value of an environment variable, or null. A leading ~ stands for HOME, and
// $NAME and ${NAME} for variables, in the paths. Reads the file of the token where no variable has
// it. INVALID_ARGUMENT names the variable that is wrong.
absl::StatusOr<Settings> ReadSettings(const std::function<const char*(const char* name)>& variable);

// ReadSettings with this process's environment.
absl::StatusOr<Settings> SettingsFromEnvironment();

}  // namespace tandem::hub
