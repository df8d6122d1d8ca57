#include "model/load_flags.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tandem::model {

void LoadFlags::AddTo(flags::FlagSet& flags, absl::string_view model_help,
                      absl::string_view threads_help, absl::string_view pool_help) {
  flags.Group("Model");
  flags.Text("model", &directory, model_help);
  flags.Choice("dtype", &dtype, DtypeNames(),
               "type of the weights in memory: auto (as in the file), fp32, bf16 or fp16 "
               "(rounded), int8 or int4 (with activations as int8, in groups of 32 inputs)");
  flags.Switch(
      "offload", &offload,
      "keep weights that do not fit into memory in the file, and read them there in each pass");
  flags.Choice("kv-cache-dtype", &cache_dtype, CacheDtypeNames(), CacheDtypeHelp());
  flags.Number("threads", &threads, 1, 256,
               absl::StrCat("threads that compute a pass. Default: ", threads_help));
  flags.Number("pool-tokens", &pool_tokens, 0, uint64_t{1} << 32,
               absl::StrCat("KV cache size, in tokens of all sequences together; 0 = ", pool_help));
}

absl::StatusOr<LoadOptions> LoadFlags::Options() const {
  LoadOptions options;
  options.directory = directory;
  options.threads = threads;
  options.pool_tokens = pool_tokens;
  options.offload = offload;
  TANDEM_ASSIGN_OR_RETURN(options.dtype, ParseDtype(dtype));
  TANDEM_ASSIGN_OR_RETURN(options.cache_dtype, ParseDtype(cache_dtype));
  TANDEM_RETURN_IF_ERROR(options.Validate());
  return options;
}

}  // namespace tandem::model
