#include "model/load_flags.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tandem::model {

void LoadFlags::AddTo(flags::FlagSet& flags, absl::string_view model_help,
                      absl::string_view threads_help, absl::string_view pool_help) {
  flags.Group("Model");
  flags.Text("model", &directory, model_help);
  flags.Choice("dtype", &dtype, DtypeNames(),
               "what the weights are held as: auto (as the file has them), fp32, bf16 or fp16 "
               "(rounded), int8 or int4 (activations as int8, too, by 32 inputs)");
  flags.Switch(
      "offload", &offload,
      "weights that do not fit into memory stay in the file, and each pass reads them there");
  flags.Choice("kv-cache-dtype", &cache_dtype, CacheDtypeNames(), CacheDtypeHelp());
  flags.Number("threads", &threads, 1, 256,
               absl::StrCat("threads that compute a pass; when absent, ", threads_help));
  flags.Number("pool-tokens", &pool_tokens, 0, uint64_t{1} << 32,
               absl::StrCat("tokens that all sequences together may hold; 0 = ", pool_help));
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
